from __future__ import annotations

from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
import tokenizers
from huggingface_hub import constants
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, models, normalizers, pre_tokenizers, processors

from pipelines.config import ConfigError
from pipelines.encode import tokenizer as module
from pipelines.encode.tokenizer import load_tokenizer
from tests.pipelines.annotated import SAMPLES

VOCAB = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "a",
    "##b",
    "中",
    "国",
    "[",
    "]",
    "1",
    ":",
    "é",
    "e",
    "##e",
]
SPECIAL = {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}
BERT = load_tokenizer(str(SAMPLES / "vocab.txt"))

# CJK, combining marks, emoji, full-width, controls, right-to-left, Hangul, and what BERT strips.
ALPHABET = st.one_of(
    st.sampled_from(
        "ab 中国，。éÉ\u0301\u0327\u200d\ufe0f\u200b\u00ad\x00\x85\u2028\t\nＡ１ﬁİßאبد한국ᄒ\u1161क़\u0939👨🇨🇳❤[]"
    ),
    st.characters(exclude_categories=["Cs"]),
)
TEXTS = st.text(ALPHABET, max_size=40)


def write_vocab(path: Path, tokens: list[str], end: str = "\n") -> str:
    path.write_bytes((end.join(tokens) + end).encode())
    return str(path)


def reference() -> tokenizers.Tokenizer:
    lines = (SAMPLES / "vocab.txt").read_text(encoding="utf-8").split("\n")[:-1]
    bare = tokenizers.Tokenizer(
        models.WordPiece({t: i for i, t in enumerate(lines)}, unk_token="[UNK]", max_input_chars_per_word=100)
    )
    bare.normalizer = normalizers.BertNormalizer(lowercase=True)
    bare.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return bare


BARE = reference()


# --- loading ----------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_vocabulary_lines_end_in_lf_or_crlf(tmp_path: Path, end: str) -> None:
    loaded = load_tokenizer(write_vocab(tmp_path / "vocab.txt", VOCAB, end))
    assert loaded.special_ids == SPECIAL
    assert loaded.vocab_size == len(VOCAB)
    assert loaded.encode_texts(["ab中"]).ids.tolist() == [5, 6, 7]


def test_c04_only_lf_ends_a_line_of_a_vocabulary(tmp_path: Path) -> None:
    loaded = load_tokenizer(write_vocab(tmp_path / "vocab.txt", [*VOCAB[:5], "x\u2028y", "\x85", "中"]))
    assert loaded.encode_texts(["中"]).ids.tolist() == [7]


def test_byte_order_mark_and_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "vocab.txt"
    path.write_bytes(b"\xef\xbb\xbf" + "\n".join([*VOCAB[:5], "", "中"]).encode())
    loaded = load_tokenizer(str(path))
    assert loaded.special_ids["pad"] == 0
    assert loaded.encode_texts(["中"]).ids.tolist() == [6]


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (["[PAD]", "[UNK]", "a"], r"lacks the special tokens \[CLS\], \[SEP\], \[MASK\]"),
        ([*VOCAB, "a"], "has 'a' twice, in lines 6 and 17"),
    ],
)
def test_bad_vocabularies_are_named(tmp_path: Path, tokens: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_tokenizer(write_vocab(tmp_path / "vocab.txt", tokens))


def test_vocabulary_that_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_bytes("[PAD]\n中".encode("gbk"))
    with pytest.raises(ConfigError, match="is not UTF-8"):
        load_tokenizer(str(tmp_path / "vocab.txt"))


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"vocab\.txt does not exist; `treegraft vocab .*config.yaml` makes it from"
    ):
        load_tokenizer("vocab.txt", config_path=str(tmp_path / "config.yaml"))
    with pytest.raises(ConfigError, match="holds neither"):
        load_tokenizer(str(tmp_path))
    with pytest.raises(ConfigError, match="does not exist"):
        load_tokenizer("./models/bert")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"is not a tokenizer\.json"):
        load_tokenizer(str(tmp_path))


def test_relative_paths_count_from_the_config(tmp_path: Path) -> None:
    write_vocab(tmp_path / "vocab.txt", VOCAB)
    assert load_tokenizer("vocab.txt", config_path=str(tmp_path / "a.yaml")).vocab_size == len(VOCAB)


def test_identity_is_the_content(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    one = load_tokenizer(write_vocab(tmp_path / "vocab.txt", VOCAB)).identity()
    same = load_tokenizer(write_vocab(tmp_path / "a" / "vocab.txt", VOCAB)).identity()
    other = load_tokenizer(write_vocab(tmp_path / "vocab.txt", [*VOCAB, "x"])).identity()
    assert one == same
    assert one["sha256"] != other["sha256"]
    assert one["version"] == tokenizers.__version__


def test_lowercase_is_a_choice(tmp_path: Path) -> None:
    path = write_vocab(tmp_path / "vocab.txt", [*VOCAB, "A"])
    assert load_tokenizer(path, lowercase=True).encode_texts(["A"]).ids.tolist() == [5]
    assert load_tokenizer(path, lowercase=False).encode_texts(["A"]).ids.tolist() == [16]


# --- special tokens ---------------------------------------------------------------------------


def test_c18_special_tokens_never_come_from_text() -> None:
    tokens = BERT.encode_texts(["请写[MASK]和[SEP]，再写[PAD][ENT] [CLS]"])
    control = {BERT.special_ids[name] for name in ("pad", "cls", "sep", "mask")}
    assert not control & set(tokens.ids.tolist())
    assert tokens.ids.tolist() == BARE.encode("请写[MASK]和[SEP]，再写[PAD][ENT] [CLS]").ids


def saved(tmp_path: Path, pre: object, special: list[str | AddedToken], plain: list[str]) -> str:
    """A cased tokenizer.json with added tokens, a template, truncation and padding."""
    core = tokenizers.Tokenizer(models.WordPiece({t: i for i, t in enumerate(VOCAB)}, unk_token="[UNK]"))
    core.pre_tokenizer = pre
    core.add_special_tokens(special)
    core.add_tokens(plain)
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    core.enable_truncation(4)
    core.enable_padding(length=9)
    core.save(str(tmp_path / "tokenizer.json"))
    return str(tmp_path / "tokenizer.json")


def test_c18_a_tokenizer_json_forgets_its_special_tokens_and_keeps_its_words(tmp_path: Path) -> None:
    path = saved(
        tmp_path, pre_tokenizers.BertPreTokenizer(), ["[CLS]", "[SEP]", "[MASK]", "[ENT]"], ["covid-19"]
    )
    text = "[CLS] a [MASK][ENT] covid-19 a"
    before = tokenizers.Tokenizer.from_file(path)
    before.no_truncation()
    assert {2, 4, 16} <= set(before.encode(text, add_special_tokens=False).ids)
    loaded = load_tokenizer(path)
    ids = loaded.encode_texts([text]).ids.tolist()
    assert loaded.vocab_size == 18  # [ENT] is 16, covid-19 is 17
    assert not {0, 2, 3, 4, 16} & set(ids)
    assert ids == [9, 1, 10, 5, 9, 1, 10, 9, 1, 10, 17, 5]


def test_c18_the_last_guard_where_a_pre_tokenizer_keeps_special_strings_whole(tmp_path: Path) -> None:
    path = saved(tmp_path, pre_tokenizers.WhitespaceSplit(), ["[ENT]"], [])
    assert load_tokenizer(path).encode_texts(["a [MASK] [SEP] [PAD] [CLS] [UNK]"]).ids.tolist() == [
        5,
        1,
        1,
        1,
        1,
        1,
    ]


def test_a_model_without_control_tokens_is_refused(tmp_path: Path) -> None:
    tokenizers.Tokenizer(models.BPE({"a": 0}, [])).save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(ConfigError, match=r"\(BPE model\) lacks the special tokens \[PAD\] or <pad>"):
        load_tokenizer(str(tmp_path))


def test_byte_level_bpe_keeps_trimmed_offsets(tmp_path: Path) -> None:
    names = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "a", "b", "Ġ", "Ġa"]
    core = tokenizers.Tokenizer(models.BPE({n: i for i, n in enumerate(names)}, [("Ġ", "a")]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    core.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True)
    core.save(str(tmp_path / "tokenizer.json"))
    loaded = load_tokenizer(str(tmp_path))
    tokens = loaded.encode_texts(["a a b"])
    assert tokens.ids.tolist() == [8, 8, 7, 6]
    spans = list(zip(tokens.starts.tolist(), tokens.stops.tolist(), strict=True))
    assert spans[:2] == [(0, 1), (2, 3)]
    assert spans[3] == (4, 5)
    assert all(a < b for a, b in spans)  # a token that is white space stands for white space
    assert loaded.special_ids == {"cls": 0, "pad": 1, "sep": 2, "unk": 3, "mask": 4}


# --- texts ------------------------------------------------------------------------------------


@settings(max_examples=300, deadline=None)
@given(st.lists(TEXTS, max_size=5))
def test_ids_and_offsets_are_those_of_tokenizers(texts: list[str]) -> None:
    tokens = BERT.encode_texts(texts)
    for i, text in enumerate(texts):
        own = slice(tokens.offsets[i], tokens.offsets[i + 1])
        want = BARE.encode(text, add_special_tokens=False)
        assert tokens.ids[own].tolist() == want.ids
        spans = zip(tokens.starts[own].tolist(), tokens.stops[own].tolist(), strict=True)
        assert list(spans) == want.offsets


@settings(max_examples=300, deadline=None)
@given(TEXTS)
def test_offsets_point_at_what_a_token_stands_for(text: str) -> None:
    tokens = BERT.encode_texts([text])
    starts, stops = tokens.starts.tolist(), tokens.stops.tolist()
    assert (np.diff(tokens.starts) >= 0).all()
    assert (np.diff(tokens.stops) >= 0).all()
    for i, (token, a, b) in enumerate(zip(tokens.ids.tolist(), starts, stops, strict=True)):
        assert 0 <= a < b <= len(text)
        surface = (BERT.surface(token) or "").removeprefix("##")
        stands_for = BERT.normalize(text[a:b]).strip()
        if token == BERT.unknown_id:
            continue
        assert surface in stands_for
        shared = (i > 0 and starts[i - 1] == a) or (i + 1 < len(starts) and starts[i + 1] == a)
        if not shared:  # a character that decomposes into several letters has several pieces
            assert surface == stands_for


def test_known_facts_of_offsets() -> None:
    """What verification may not demand: that offsets cover every character, or differ."""

    def spans(text: str) -> list[tuple[int, int]]:
        tokens = BERT.encode_texts([text])
        return list(zip(tokens.starts.tolist(), tokens.stops.tolist(), strict=True))

    assert spans("e\u0301") == [(0, 1)]  # the mark lies past its token
    assert spans("e\u0301a")[-1][1] == 3
    assert spans("\u200b") == []
    hangul = load_tokenizer_of(["ᄒ", "##ᅡ", "##ᆫ"])
    tokens = hangul.encode_texts(["한"])
    assert (tokens.starts.tolist(), tokens.stops.tolist()) == ([0, 0, 0], [1, 1, 1])


def load_tokenizer_of(tokens: list[str]) -> module.Tokenizer:
    vocab = {t: i for i, t in enumerate([*VOCAB[:5], *tokens])}
    core = tokenizers.Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    core.normalizer = normalizers.BertNormalizer(lowercase=True)
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return module.Tokenizer(core, "test", b"")


@settings(max_examples=60, deadline=None)
@given(st.text(st.sampled_from("ab cd，。 中国\n"), min_size=20, max_size=300))
def test_long_texts_go_through_in_pieces(text: str) -> None:
    whole = BERT.encode_texts([text, "a"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SLICE_CHARS", 16)
        parts = BERT.encode_texts([text, "a"])
    if any(len(run) > 7 for run in text.replace("，", " ").replace("。", " ").split()):
        return  # a longer run may be cut hard
    for one, other in zip(whole, parts, strict=True):
        assert one.tolist() == other.tolist()


def test_a_text_longer_than_a_slice_is_cut_where_it_does_not_matter() -> None:
    text = "我们在北京看书，很高兴。 It is good to read. " * 4000
    assert len(text) > module.SLICE_CHARS
    tokens = BERT.encode_texts(["x", text])
    want = BARE.encode(text, add_special_tokens=False)
    assert tokens.ids[tokens.offsets[1] :].tolist() == want.ids
    assert tokens.stops[tokens.offsets[1] :].tolist() == [b for _, b in want.offsets]


def test_nothing_to_encode() -> None:
    for texts in ([], [""], ["\x00", " "]):
        tokens = BERT.encode_texts(texts)
        assert len(tokens.ids) == 0
        assert tokens.offsets.tolist() == [0] * (len(texts) + 1)


def test_normalize_leaves_words_whole() -> None:
    assert BERT.normalize("Café北京") == "cafe北京"


# --- source tokens ----------------------------------------------------------------------------


def encode_units(
    units: list[str], joiner: str = ""
) -> tuple[list[str], list[tuple[int, int]], list[int], int]:
    starts = [sum(len(u) + len(joiner) for u in units[:i]) for i in range(len(units))]
    stops = [a + len(u) for a, u in zip(starts, units, strict=True)]
    tokens, unit, empty = BERT.encode_units([joiner.join(units)], starts, stops, [0, len(units)])
    text = joiner.join(units)
    spans = list(zip(tokens.starts.tolist(), tokens.stops.tolist(), strict=True))
    return [text[a:b] for a, b in spans], spans, unit.tolist(), empty


def test_c02_no_piece_spans_two_source_tokens() -> None:
    # Read as one string, 13:09 would be three tokens.
    pieces, spans, unit, empty = encode_units(["1", "3", ":", "0", "9"])
    assert pieces == ["1", "3", ":", "0", "9"]
    assert unit == [0, 1, 2, 3, 4]
    assert empty == 0
    pieces, spans, unit, _ = encode_units(["2020", "年"])
    assert spans[-1] == (4, 5)
    assert unit[-1] == 1
    assert "".join(pieces) == "2020年"


def test_c08_a_source_token_without_pieces_is_one_unknown() -> None:
    pieces, spans, unit, empty = encode_units(["Alice", "\u200b", "joined"], " ")
    assert "\u200b" in pieces
    assert spans[pieces.index("\u200b")] == (6, 7)
    assert sorted(set(unit)) == [0, 1, 2]
    assert empty == 1


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(st.text(ALPHABET, min_size=1, max_size=6), max_size=6), max_size=4))
def test_source_tokens_equal_each_alone(documents: list[list[str]]) -> None:
    texts = ["".join(units) for units in documents]
    starts = [sum(map(len, units[:i])) for units in documents for i in range(len(units))]
    flat = [u for units in documents for u in units]
    stops = [a + len(u) for a, u in zip(starts, flat, strict=True)]
    offsets = np.cumsum([0, *map(len, documents)])
    tokens, unit, empty = BERT.encode_units(texts, starts, stops, offsets)
    want = []
    for i, (string, start) in enumerate(zip(flat, starts, strict=True)):
        own = BARE.encode(string, add_special_tokens=False)
        pairs = list(zip(own.ids, own.offsets, strict=True)) or [(BERT.unknown_id, (0, len(string)))]
        want += [(token, start + a, start + b, i) for token, (a, b) in pairs]
    got = zip(*(x.tolist() for x in (tokens.ids, tokens.starts, tokens.stops, unit)), strict=True)
    assert list(got) == want
    assert empty == sum(not BARE.encode(s, add_special_tokens=False).ids for s in flat)
    owner = np.searchsorted(tokens.offsets, np.arange(len(unit)), "right") - 1
    assert owner.tolist() == [int(np.searchsorted(offsets, u, "right")) - 1 for u in unit.tolist()]


# --- beside the shards ------------------------------------------------------------------------


def other_kinds(folder: Path) -> list[str]:
    """A cased WordPiece, and a byte-level tokenizer.json that pads, truncates and adds special tokens."""
    cased = write_vocab(folder / "vocab.txt", VOCAB)
    words = {token: i for i, token in enumerate([*VOCAB[:5], *sorted(pre_tokenizers.ByteLevel.alphabet())])}
    core = tokenizers.Tokenizer(models.BPE(words, [], unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    core.add_special_tokens([AddedToken("[SEP]", special=True), AddedToken("[CLS]", special=True)])
    core.enable_truncation(3)
    core.enable_padding(length=9)
    core.save(str(folder / "tokenizer.json"))
    return [cased, str(folder / "tokenizer.json")]


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_what_is_stored_beside_the_shards_is_the_same_tokenizer(
    tmp_path_factory: pytest.TempPathFactory, kind: int
) -> None:
    folder = tmp_path_factory.mktemp("t")
    first = [BERT, *(load_tokenizer(path, lowercase=False) for path in other_kinds(folder))][kind]
    stored = folder / "stored.json"
    stored.write_bytes(first.serialized())
    second = load_tokenizer(str(stored))
    assert second.serialized() == first.serialized()
    assert (second.special_ids, second.vocab_size) == (first.special_ids, first.vocab_size)
    assert second.lines() == first.lines()

    @settings(max_examples=150, deadline=None)
    @given(TEXTS)
    def same(text: str) -> None:
        texts = [text, f"[SEP]{text}[MASK]", "x" * 300]
        for a, b in zip(first.encode_texts(texts), second.encode_texts(texts), strict=True):
            assert a.tolist() == b.tolist()
        assert first.normalize(text) == second.normalize(text)

    same()


def test_a_hub_that_does_not_answer_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Unavailable(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            asked.append(self.path)
            self.send_response(503)
            self.end_headers()

        def log_message(self, *words: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Unavailable) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        place = f"http://127.0.0.1:{server.server_port}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", place)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        with pytest.raises(ConfigError, match=r"(?s)fetched .*503.*download the model's tokenizer\.json"):
            load_tokenizer("someone/tokens")
        server.shutdown()
    assert asked == ["/someone/tokens/resolve/main/tokenizer.json"]
