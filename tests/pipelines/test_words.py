"""Words: offsets that cover the text, jieba's own segmentation, user dictionaries."""

from __future__ import annotations

import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.annotate.jieba_words import JiebaWords
from pipelines.annotate.segmenters import find_segmenter, load_segmenter, segmenter_identity
from pipelines.annotate.spacy_words import SpacyWords, blank
from pipelines.annotate.user_dict import read_user_dict
from pipelines.annotate.words import sentences_of
from pipelines.config import ConfigError
from tests.pipelines.raw import check_spans

SEGMENTERS = {"zh": JiebaWords(), "en": SpacyWords(blank("en")), "de": SpacyWords(blank("de"))}


def load(language: str):
    return load_segmenter(find_segmenter("default", language, None, None, ""))


def identity(user_dict: str | None = None) -> dict:
    return segmenter_identity(find_segmenter("default", "zh", user_dict, None, ""))


def words(text: str, language: str, segmenter=None) -> list[str]:
    """Forms of the words of one text, read through their offsets."""
    found = (segmenter or SEGMENTERS[language]).segment([text], sentences_of([text], language))
    forms = [text[a:b] for a, b in zip(found.starts, found.stops, strict=True)]
    assert forms == found.forms
    return forms


TEXTS = st.lists(
    st.one_of(
        st.sampled_from(
            [
                *"。！？.!?，；：“”\"'（）() \n\t\u3000\u200b\ufe0f甲乙北京大学aB1-",
                "Dr.",
                "don't ",
                "👨‍👩‍👧",
                "\r\n",
            ]
        ),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=60,
).map("".join)


@settings(deadline=None)
@given(st.lists(TEXTS, max_size=4), st.sampled_from(sorted(SEGMENTERS)))
def test_words_cover_all_but_whitespace_and_stay_in_their_sentence(texts, language):
    sentences = sentences_of(texts, language)
    found = SEGMENTERS[language].segment(texts, sentences)
    forms = iter(found.forms)
    for r, text in enumerate(texts):
        own = slice(found.offsets[r], found.offsets[r + 1])
        starts, stops = found.starts[own].tolist(), found.stops[own].tolist()
        check_spans(text, starts, stops)
        assert [text[a:b] for a, b in zip(starts, stops, strict=True)] == [next(forms) for _ in starts]
        assert not any(any(c.isspace() for c in text[a:b]) for a, b in zip(starts, stops, strict=True))
        for s in range(sentences.offsets[r], sentences.offsets[r + 1]):
            first, last = found.of_sentence[s], found.of_sentence[s + 1]
            assert found.starts[first] == sentences.starts[s] and found.stops[last - 1] == sentences.stops[s]
    assert found.sentences.starts.tolist() == sentences.starts.tolist()
    assert found.sentences.offsets.tolist() == sentences.offsets.tolist()


def test_chinese_words_are_those_of_jieba(real_data):
    import jieba

    bare = jieba.Tokenizer()
    bare.FREQ, bare.total = bare.gen_pfdict(bare.get_dict_file())
    bare.initialized = True
    lines = (real_data / "kbert/chnsenticorp/dev.tsv").read_text(encoding="utf-8").split("\n")[1:200]
    for text in (line.split("\t")[1] for line in lines if "\t" in line):
        spans = sentences_of([text], "zh")
        expected = [
            word
            for a, b in zip(spans.starts, spans.stops, strict=True)
            for word in bare.cut(text[a:b])
            if not word.isspace()
        ]
        assert words(text, "zh") == expected


def test_no_dictionary_cache_is_read_or_written(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "jieba.cache").write_bytes(b"planted")
    assert words("我爱北京天安门", "zh", JiebaWords()) == ["我", "爱", "北京", "天安门"]
    assert [p.name for p in tmp_path.iterdir()] == ["jieba.cache"]
    assert (tmp_path / "jieba.cache").read_bytes() == b"planted"


@pytest.mark.parametrize("language", ["zh", "en"])
def test_c08_a_zero_width_word_stays_a_word(language):
    assert words("Alice \u200b joined Acme", language) == ["Alice", "\u200b", "joined", "Acme"]


def test_a_word_is_cut_where_a_sentence_ends():
    text = "went home.说。Yes it is"
    assert "说。Yes" in [t.text for t in blank("en")(text)]
    assert words(text, "en") == ["went", "home", ".", "说。", "Yes", "it", "is"]


def test_spaced_words_are_those_of_the_tokenizer():
    text = "Don't  go to the U.S.,\n\nplease: it's 3.5km (or so)."
    assert words(text, "en") == [t.text for t in blank("en")(text) if not t.is_space]


# --- user dictionaries ------------------------------------------------------------------------

ENTRIES = "打底裤 10000\r\nEdu Trust认证 2000\n云计算\n"


def test_c30_words_with_spaces_counts_and_any_line_end(tmp_path):
    path = tmp_path / "user.txt"
    path.write_bytes(ENTRIES.encode())
    assert read_user_dict(str(path)) == [("打底裤", 10_000), ("Edu Trust认证", 2_000), ("云计算", None)]
    text = "他买打底裤，通过Edu Trust认证，用云计算。"
    expected = ["他", "买", "打底裤", "，", "通过", "Edu Trust认证", "，", "用", "云计算", "。"]
    assert words(text, "zh", JiebaWords(str(path))) == expected
    assert words(text, "zh") != expected  # each of the three needs the dictionary


def test_c30_another_encoding_names_the_line(tmp_path):
    path = tmp_path / "user.txt"
    path.write_bytes(b"abc 3\n" + "打底裤 10000\n".encode("gbk"))
    with pytest.raises(ConfigError, match=r"user\.txt, line 2: expected UTF-8.*iconv"):
        JiebaWords(str(path))


@pytest.mark.parametrize(
    ("line", "entry"),
    [
        ("\ufeff云计算 5 n", ("云计算", 5)),
        ("云计算 n", ("云计算", None)),
        ("云计算\t7", ("云计算", 7)),
        ("machine learning", ("machine learning", None)),
        ("machine learning 9 nz", ("machine learning", 9)),
        ("2020 3", ("2020", 3)),
        ("2020", ("2020", None)),
    ],
)
def test_user_dictionary_lines(tmp_path, line, entry):
    path = tmp_path / "user.txt"
    path.write_text(line + "\n\n", encoding="utf-8")
    assert read_user_dict(str(path)) == [entry]


def test_a_count_of_zero_is_refused(tmp_path):
    path = tmp_path / "user.txt"
    path.write_text("好\n坏 0\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="line 2: expected a count of 1 or more, found 0"):
        read_user_dict(str(path))


def test_an_odd_word_is_not_found_inside_a_longer_one(tmp_path):
    path = tmp_path / "user.txt"
    path.write_text("C++ STL 100\n", encoding="utf-8")
    segmenter = JiebaWords(str(path))
    assert "C++ STL" in words("学C++ STL吧", "zh", segmenter)
    assert "C++ STL" not in words("学C++ STLX吧", "zh", segmenter)


def test_dictionaries_do_not_leak_into_each_other(tmp_path):
    path = tmp_path / "user.txt"
    path.write_text("天安门广场上 100000\n", encoding="utf-8")
    assert "天安门广场上" in words("在天安门广场上看", "zh", JiebaWords(str(path)))
    assert "天安门广场上" not in words("在天安门广场上看", "zh", JiebaWords())


def test_identity_follows_the_content_of_the_user_dictionary(tmp_path):
    path = tmp_path / "user.txt"
    seen = {identity()["sha256"]}
    for content in ("甲", "乙"):
        path.write_text(content, encoding="utf-8")
        seen.add(identity(str(path))["sha256"])
    assert len(seen) == 3


def test_a_language_without_tokenizer_names_those_with_one():
    with pytest.raises(ConfigError, match=r"language 'qq'.*usable without further packages: .*de, .*en, "):
        load("qq")
