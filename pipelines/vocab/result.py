"""What a finished run leaves beside the vocabularies: `report.json`, and `manifest.json`, written last.

Each vocabulary is finished for itself, so that one may be made anew without the other.

The report has a part a vocabulary, `fine` and `coarse`:

- `file`, `entries` (lines of it), `splits`, `documents`: what was made, of what; `occurrences`: words (coarse: phrases
  and words in none) that were counted, each as often as it stands there.
- fine: `words`, different ones that were learnt from (`vocab.fine.min_count`); `characters` of the alphabet and
  `characters_left_out` of it; of a graph `characters_of_branches`, those that only its branches have, and
  `characters_of_branches_left_out`; `counts_scaled_by`, where there were too many words to be learnt from.
- coarse: `pieces`, `words` and `phrases` among the entries; `pieces_without_room`; `fell_out`, the most frequent words
  and phrases that found no room; of a lexicon its phrases (`lexicon`) and how many never stand in the text
  (`never_seen`).
- `coverage`, measured over all that was counted. Fine: `tokens_per_word`; `unknown_words`, the share that is [UNK].
  Coarse, as shares: `characters_in_whole_tokens`, characters in words and phrases of the vocabulary;
  `phrases_to_words`, phrases that fall to their words; `words_to_pieces`; `words_unknown`, words that are [UNK].
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from corpora import files
from corpora.manifest import MANIFEST
from pipelines.config import Config, as_named, resolve
from pipelines.differences import Facts
from pipelines.section import ConfigError

FOLDER = "vocab"
"""Below the output"""
REPORT = "report.json"
FINE_FILE = "vocab.txt"


@dataclass(frozen=True)
class Made:
    """A finished vocabulary, as the manifest has it."""

    file: str
    entries: int
    sha256: str
    fingerprint: str
    """Hash of the config, the annotated documents and the code that led here."""
    settings: Mapping[str, Any]
    identities: Mapping[str, Any]
    inputs: list[dict[str, Any]]
    versions: Mapping[str, str]

    def facts(self) -> Facts:
        return Facts(self.settings, self.identities, self.versions, self.inputs)

    def damage(self, folder: str) -> str | None:
        """What is wrong with the file; None if nothing is."""
        try:
            content = files.read_bytes(files.join(folder, self.file))
        except FileNotFoundError:
            return f"{self.file} is missing"
        if hashlib.sha256(content).hexdigest() != self.sha256:
            return f"{self.file} was changed after it was written"
        return None


def read_made(folder: str) -> dict[str, Made]:
    """Finished vocabularies by side (`fine`, `coarse`); none where the manifest is missing or damaged."""
    body = _read(folder, MANIFEST)
    try:
        return {side: Made(**made) for side, made in body.get("vocabularies", {}).items()}
    except (TypeError, AttributeError):
        return {}


def refuse_unnamed(config: Config, config_path: str, out: str) -> None:
    """Raise ConfigError where a vocabulary of the config is not there, but one was made of it that it does not name."""
    encode = config.encode
    wanted = {"fine": ("encode.tokenizer", encode.tokenizer)}
    if "coarse" in encode.columns and encode.coarse is not None:
        wanted["coarse"] = ("encode.coarse.vocab", encode.coarse.vocab)
    folder = files.join(out, FOLDER)
    lacking, keys = [], []
    for side, made in read_made(folder).items():
        key, named = wanted.get(side, ("", ""))
        there, path = files.join(folder, made.file), resolve(config_path, named)
        if path.endswith(".txt") and not files.exists(path) and files.exists(there):
            lacking.append(f"{key}: file {path} does not exist")
            keys.append(f"{key}: {as_named(config_path, there)}")
    if lacking:
        one = "one" if len(keys) == 1 else "both"
        raise ConfigError(
            f"{' and '.join(lacking)}, but `treegraft vocab` made {one}; in the config, {' and '.join(keys)}"
        )


def read_report(folder: str) -> dict[str, Any]:
    """By side, what was found of it."""
    return _read(folder, REPORT)


def write_made(folder: str, made: Mapping[str, Made]) -> None:
    """The manifest; without any vocabulary there is none."""
    if not made:
        files.remove(files.join(folder, MANIFEST))
        return
    sides = {side: asdict(made[side]) for side in sorted(made)}
    _write(folder, MANIFEST, {"stage": "vocab", "vocabularies": sides})


def write_report(folder: str, report: Mapping[str, Any]) -> None:
    _write(folder, REPORT, report)


def _read(folder: str, name: str) -> dict[str, Any]:
    try:
        body = json.loads(files.read_bytes(files.join(folder, name)))
    except (FileNotFoundError, NotADirectoryError, ValueError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}


def _write(folder: str, name: str, body: Mapping[str, Any]) -> None:
    with files.write_atomic(files.join(folder, name)) as sink:
        sink.write(json.dumps(body, indent=1, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n")
