from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from pipelines.config import ConfigError
from pipelines.encode.tokenizer import load_tokenizer
from pipelines.phrases import lexicon as module
from pipelines.phrases.lexicon import PhraseLexicon
from pipelines.phrases.segment import units
from tests.pipelines.annotated import SAMPLES

BERT = load_tokenizer(str(SAMPLES / "vocab.txt"))


def load(folder: Path, content: str | bytes, field: str = "encode.coarse.phrases") -> PhraseLexicon:
    path = folder / "phrases.tsv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return PhraseLexicon.load(str(path), BERT.normalize, field)


def test_a_line_is_a_phrase_and_what_a_tab_parts_from_it_is_not_read(tmp_path: Path) -> None:
    content = "\ufeffNew York\t12\t0.5\r\n\nnew york city\n\t7\nCafé  au lait\nalone\nnew york\t3"
    lexicon = load(tmp_path, content)
    assert lexicon.entries() == ["new york", "new york city", "cafe au lait"]
    assert (len(lexicon), lexicon.longest) == (3, 3)
    digest = hashlib.sha256(content.encode()).hexdigest()
    assert lexicon.identity() == {"name": "phrases.tsv", "sha256": digest}


def test_words_are_compared_as_the_tokenizer_compares_text(tmp_path: Path) -> None:
    lexicon = load(tmp_path, "NEW york\n")
    words = ["néw", "YORK", "new york", "york", "new", "yo rk"]
    assert units(lexicon, words, np.zeros(6, np.int64)).tolist() == [0, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"new york\nS\xe3o Paulo\n",
            r"my\.field: .*phrases\.tsv, line 2: expected UTF-8, found the byte 0xe3",
        ),
        ("one\ntwo\n", r"my\.field: .*phrases\.tsv holds no phrase of two words"),
        ("", "holds no phrase"),
        ("a b\n" + "a " * 33, r"line 2: expected a phrase, found 33 words"),
    ],
)
def test_what_is_no_lexicon_is_said(tmp_path: Path, content: str | bytes, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(tmp_path, content, "my.field")


def test_a_missing_file_names_the_field(tmp_path: Path) -> None:
    for path in (tmp_path / "none.tsv", tmp_path):
        with pytest.raises(
            ConfigError, match=r"encode\.coarse\.phrases: file .* does not exist; `treegraft phrases"
        ):
            PhraseLexicon.load(str(path), BERT.normalize)


def test_more_words_than_can_be_numbered_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_DISTINCT", 3)
    assert len(load(tmp_path, "a b\na c\n")) == 2
    with pytest.raises(ConfigError, match=r"encode\.coarse\.phrases: .* has 4 different words"):
        load(tmp_path, "a b\nc d\n")


def test_unique_words_do_not_fill_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CACHE_WORDS", 10)
    lexicon = load(tmp_path, "a b\n")
    for i in range(50):
        assert units(lexicon, [f"w{i}", "a", "b"], np.zeros(3, np.int64)).tolist() == [0, 1]
        assert len(lexicon._seen) <= 13
