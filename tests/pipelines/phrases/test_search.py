"""The whole road, in this process: a lexicon against counting and scoring by hand, finished runs, and refusals."""

from __future__ import annotations

import json
import random
from collections import Counter

import kenlm
import pytest

from pipelines import engine, watched
from pipelines.options import Options
from tests.pipelines.dedup.running import plainly
from tests.pipelines.phrases.running import PLAIN, rows, run, search, sentences


@pytest.mark.parametrize(("seed", "longest"), [(1, 2), (2, 3), (3, 3)])
def test_the_lexicon_is_what_counting_and_kenlm_say(tmp_path, seed, longest):
    lines = sentences(seed)
    result, folder, said = run(tmp_path, lines, longest=longest, max_inside=1.0)
    counts = Counter(
        tuple(words[at : at + length])
        for words in (line.lower().split(" ") for line in lines)
        for length in range(2, longest + 1)
        for at in range(len(words) - length + 1)
    )
    model, wanted = kenlm.Model(str(folder / "model.arpa")), []
    for gram, count in counts.items():
        ends = gram[0] not in PLAIN["stop"] and gram[-1] not in PLAIN["stop"]
        middle = all(word == "of" or word not in PLAIN["stop"] for word in gram[1:-1])
        if count >= 2 and ends and middle and all(any(c.isalpha() for c in word) for word in gram):
            log = list(model.full_scores(" ".join(gram), bos=False, eos=False))[-1][0]
            dependence = log - next(model.full_scores(gram[-1], bos=False, eos=False))[0]
            if 10**log >= 0.1 and dependence >= 0.2:
                wanted.append((-count * dependence, " ".join(gram), count, 10**log, dependence))
    wanted.sort()
    assert rows(folder) == [
        (text, count, pytest.approx(p, abs=1e-4), pytest.approx(d, abs=1e-4))
        for _, text, count, p, d in wanted
    ]
    assert result.phrases == len(wanted) > 5
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    frequent = sum(count >= 2 for count in counts.values())
    assert report["frequent"] == frequent == report["phrases"] + sum(report["fell"].values())
    assert [row["phrase"] for row in report["best"]] == [text for _, text, *_ in wanted][:100]
    assert report["model"]["sentences"] == len(lines)
    assert f"{len(wanted)} of {frequent:,} frequent n-grams" in said


def test_a_finished_run_is_found_and_another_one_refused(tmp_path):
    lines = sentences(4)
    result, folder, _ = run(tmp_path, lines)
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    again, _, said = run(tmp_path)
    assert again == result
    assert "already finished" in said
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    assert not [path for path in (folder / "_work").iterdir() if path.is_dir()]
    with pytest.raises(engine.RunError, match=r"phrases\.size: 78000 -> 3\n.*--overwrite"):
        run(tmp_path, size=3)
    third, folder, _ = run(tmp_path, size=3, overwrite=True)
    assert third.phrases == len(rows(folder)) == 3
    (folder / "phrases.tsv").write_bytes(b"")
    with pytest.raises(engine.RunError, match=r"phrases\.tsv has 0 bytes, the manifest says"):
        run(tmp_path, size=3)
    assert run(tmp_path, size=3, overwrite=True)[0] == third
    with pytest.raises(engine.RunError, match="an input was written again since"):
        run(tmp_path, [line.replace("b", "c") for line in lines], size=3)


def test_a_lexicon_says_how_it_gets_cleaner_and_chinese_that_it_needs_none(tmp_path):
    _, folder, said = run(tmp_path, sentences(4))
    way = "for a cleaner lexicon raise phrases.min_count or phrases.min_dependence, or lower phrases.size"
    assert way in " ".join(said.split())
    assert json.loads((folder / "report.json").read_text(encoding="utf-8"))["cleaner"] == way
    assert "Chinese" not in said
    job, console = search(tmp_path, language="zh_CN", out="zh")
    with plainly():
        job.run()
    assert "note: Chinese needs no phrases" in console.getvalue()


def test_a_model_that_was_made_or_given_is_what_differs(tmp_path):
    _, folder, _ = run(tmp_path, sentences(4))
    given = (folder / "model.arpa").rename(tmp_path / "a.arpa")
    with pytest.raises(engine.RunError, match=r"model\.arpa is missing"):
        run(tmp_path)
    run(tmp_path, overwrite=True)
    with pytest.raises(engine.RunError, match=r"changed since:\n  model: none -> a\.arpa\n"):
        run(tmp_path, model=str(given))


def test_a_run_that_died_goes_on_and_choices_may_change_meanwhile(tmp_path, monkeypatch):
    run(tmp_path, sentences(5), out="wanted", size=4)
    stages: list[str] = []
    whole = watched.execute

    def dying(title: str, stage: engine.Run, options: Options) -> list[engine.BlockRecord]:
        stages.append(f"{title}: {len(stage.pending())}")
        if title == "phrases, weigh" and len(stages) < 5:
            raise KeyboardInterrupt
        return whole(title, stage, options)

    monkeypatch.setattr(watched, "execute", dying)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, size=9)
    assert not (tmp_path / "out/phrases/manifest.json").exists()
    assert len(stages) == 4
    run(tmp_path, size=4)
    assert stages[4:7] == ["phrases, read: 0", "phrases, count: 0", "phrases, adjust: 0"]
    for name in ("phrases.tsv", "model.arpa", "report.json"):
        assert (tmp_path / "out/phrases" / name).read_bytes() == (
            tmp_path / "wanted/phrases" / name
        ).read_bytes()


def test_counts_of_other_settings_are_not_gone_on_with(tmp_path, monkeypatch):
    def dies(title: str, stage: engine.Run, options: Options) -> list[engine.BlockRecord]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(watched, "execute", dies)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path, sentences(6), order=2)
    run(tmp_path, out="wanted")
    run(tmp_path)
    assert rows(tmp_path / "out/phrases") == rows(tmp_path / "wanted/phrases")


@pytest.mark.parametrize("text", ["lines", "annotated"])
def test_an_empty_corpus_gives_an_empty_lexicon(tmp_path, text):
    result, folder, said = run(tmp_path, [], text=text, discount_fallback=None)
    assert result.phrases == 0
    assert (folder / "phrases.tsv").read_bytes() == b""
    assert result.model["words"] == 0
    assert "no phrases" in said


def test_a_model_that_is_there_already_scores_and_is_not_made(tmp_path):
    _, folder, _ = run(tmp_path, sentences(7))
    model = tmp_path / "given.arpa"
    (folder / "model.arpa").rename(model)
    result, other, _ = run(tmp_path, out="other", model=str(model), discount_fallback=None)
    assert rows(other) == rows(folder)
    assert not (other / "model.arpa").exists()
    assert result.model["name"] == "given.arpa"
    assert result.model["order"] == 3
    model.write_bytes(model.read_bytes().replace(b"york", b"xork"))
    with pytest.raises(engine.RunError, match=r"model: \w+\.\. -> \w+\.\."):
        run(tmp_path, out="other", model=str(model), discount_fallback=None)
    _, folder, _ = run(tmp_path, out="third", model=str(model), discount_fallback=None)
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert report["fell"]["unknown"] > 0
    assert not any(text.endswith("york") for text, *_ in rows(folder))


def test_only_splits_that_train_are_counted(tmp_path):
    (tmp_path / "test.txt").write_text("secret phrase\n" * 9)
    files = {"train": "a.txt", "test": "test.txt"}
    _, folder, _ = run(tmp_path, sentences(8), files=files)
    assert "secret phrase" not in [text for text, *_ in rows(folder)]
    _, folder, _ = run(tmp_path, files=files, splits=["test"], out="test")
    assert [text for text, *_ in rows(folder)] == ["secret phrase"]


def test_annotated_text_is_cut_into_words_first(tmp_path):
    lines = ["The Supreme Court met."] * 3 + ["Supreme Court rules, supreme courts."] * 2
    _, folder, _ = run(tmp_path, lines, text="annotated")
    assert {row[:2] for row in rows(folder)} == {
        ("supreme court", 5),
        ("supreme court met", 3),
        ("supreme court rules", 2),
        ("supreme courts", 2),
    }


ALL_PAIRS = {"min_count": 1, "min_probability": 0.0, "min_dependence": -99, "max_inside": 1.0, "stop": []}
ALL_PAIRS |= {"words": "any", "links": None}
PARTING = ["<s>", "</s>", "<unk>", "<UNK>", "\ufffc"]
"""Words that no ARPA file can hold as words of the text, and the one that stands for them."""


def neighbours(sentences: list[list[str]]) -> Counter[str]:
    """Phrases of words that really stand side by side."""
    return Counter(
        " ".join(gram)
        for words in sentences
        for length in (2, 3)
        for at in range(len(words) - length + 1)
        for gram in [words[at : at + length]]
        if not any(word in PARTING or set(word) & set(" \t") for word in gram)
    )


@pytest.mark.parametrize("lowercase", [True, False])
def test_words_that_cannot_be_counted_part_their_neighbours(tmp_path, lowercase):
    rng = random.Random(11)
    words = ["a", "B", "c", "</S>", *PARTING]
    text = [[rng.choice(words) for _ in range(rng.randrange(12))] for _ in range(60)]
    result, folder, _ = run(tmp_path, [" ".join(line) for line in text], lowercase=lowercase, **ALL_PAIRS)
    cased = [[word.lower() if lowercase else word for word in line] for line in text]
    counted = Counter(word for line in cased for word in line)
    wanted = neighbours(cased)
    assert {phrase: count for phrase, count, *_ in rows(folder)} == wanted
    assert len(wanted) > 10
    assert result.model["special_words"] == sum(counted[word] for word in PARTING[:-1])
    assert result.model["words"] == counted.total()


def test_given_words_that_hold_a_blank_part_their_neighbours(tmp_path):
    sentence = ["a", "b", "New York", "c", "<s>", "d", "a", "b"]
    lines = [f"{n}\t{word}" + "\t_" * 4 + "\t0\troot\t_\t_" for n, word in enumerate(sentence, 1)]
    (tmp_path / "a.conllu").write_text("\n".join(lines) + "\n\n", encoding="utf-8")
    layout = {"format": "conllu"}
    _, folder, _ = run(tmp_path, text="annotated", files="a.conllu", layout=layout, **ALL_PAIRS)
    assert {phrase: count for phrase, count, *_ in rows(folder)} == neighbours([sentence])


def test_words_keep_their_case_where_the_tokenizer_does(tmp_path):
    _, folder, _ = run(tmp_path, ["New York"] * 3, encode={"lowercase": False})
    assert [text for text, *_ in rows(folder)] == ["New York"]
    with pytest.raises(engine.RunError, match=r"phrases\.lowercase: false -> true"):
        run(tmp_path)
    _, folder, _ = run(tmp_path, encode={"lowercase": False}, lowercase=True, overwrite=True)
    assert [text for text, *_ in rows(folder)] == ["new york"]
