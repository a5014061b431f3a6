"""Text to token ids with exact character offsets, a block at a time.

The Rust tokenizers of Hugging Face decide; ids and offsets are theirs. Added here: special
tokens never come from text, whatever it says ("[SEP]" in a review is seven letters and signs);
results are flat arrays; and memory is bounded: `Encoding` objects cost about 500 bytes a token, so texts go
through in slices of `SLICE_CHARS`. Where a tokenizer has BERT's rules, `pipelines.encode.characters` asks it for each
character and each word once, which gives the same tokens in a tenth of the time for Chinese; for any other, taking the
arrays out of the encodings adds a sixth to the bare `encode_batch`.

What holds of offsets, and may be demanded of every row: starts never decrease, `start <= stop`,
and two tokens may share a character (a Hangul syllable becomes several jamo pieces, each with the
syllable's offsets). What does not hold: offsets need not cover every character. Control characters
are in no token, and a combining mark after the last letter of a word lies past its token.

Shapes: N tokens, n texts, U source tokens. Offsets count characters.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tokenizers
from numpy.typing import ArrayLike, NDArray
from tokenizers import models, normalizers, pre_tokenizers

from corpora import files
from pipelines.config import ConfigError, resolve
from pipelines.encode.characters import Characters, Encode, Pieces, applies
from pipelines.ragged import Ints, bounds, ranges

SLICE_CHARS = 128 * 1024
"""Text that is in the tokenizer at a time; also the longest text that it sees whole."""
MAX_WORD_CHARS = 100
"""A longer run without space or punctuation is one [UNK], as in BERT's own tokenizer in `tokenizers`."""

SPECIAL_TOKENS = {
    "pad": ("[PAD]", "<pad>"),
    "unk": ("[UNK]", "<unk>"),
    "cls": ("[CLS]", "<s>"),
    "sep": ("[SEP]", "</s>"),
    "mask": ("[MASK]", "<mask>"),
}
"""Role to the names it goes by, BERT's first."""

# A text longer than a slice is cut before a space, else after CJK punctuation: the pieces
# tokenize as the whole does, because pre-tokenizers split there anyway.
_SOFT_CUT = re.compile(r"(?<=\S)(?=\s)|(?<=[。！？；，、：])(?=\w)")
_LOOK_BACK = 1024


class Tokens(NamedTuple):
    """Tokens of n texts: text i has tokens `offsets[i]:offsets[i + 1]`."""

    ids: NDArray[np.int32]
    """[N]"""
    starts: NDArray[np.int32]
    """[N], first character in its text"""
    stops: NDArray[np.int32]
    """[N], one past the last character"""
    offsets: Ints
    """[n+1]"""


class Tokenizer:
    """A subword tokenizer whose output from text holds no special token."""

    def __init__(self, core: tokenizers.Tokenizer, name: str, content: bytes) -> None:
        self._name = name
        self._sha256 = hashlib.sha256(content).hexdigest()
        body = json.loads(core.to_str())
        self.special_ids = _special_ids(core, body, name)
        """Ids of `pad`, `unk`, `cls`, `sep` and `mask`."""
        self.vocab_size: int = 1 + max(core.get_vocab(with_added_tokens=True).values())
        """One more than the largest id."""

        special = set(chain.from_iterable(SPECIAL_TOKENS.values()))
        added = body.get("added_tokens") or []
        for token in added:
            token["special"] = token["special"] or token["content"] in special
        self._core = tokenizers.Tokenizer.from_str(json.dumps(body))
        self._core.encode_special_tokens = True  # "[MASK]" in text is text
        self._core.no_truncation()
        self._core.no_padding()
        # The last guard, should a vocabulary hold "[CLS]" and its pre-tokenizer keep it whole.
        self._control = np.zeros(self.vocab_size, dtype=bool)
        self._control[[t["id"] for t in added if t["special"]] + list(self.special_ids.values())] = True
        self._control[self.special_ids["unk"]] = False
        self._word_normalizer = _word_normalizer(body.get("normalizer"))
        by_characters = applies(body)
        self._encode: Encode = (
            Characters(self._core, self._encode_plainly).encode if by_characters else self._encode_plainly
        )

    @property
    def unknown_id(self) -> int:
        return self.special_ids["unk"]

    def identity(self) -> dict[str, str]:
        """Name (of the file or on the hub), SHA-256 of the vocabulary's bytes, version of the library."""
        return {"name": self._name, "sha256": self._sha256, "version": tokenizers.__version__}

    def surface(self, token_id: int) -> str | None:
        """The token of an id, as the vocabulary writes it (`##ing`); None if no token has it."""
        token: str | None = self._core.id_to_token(int(token_id))
        return token

    def lines(self) -> bytes:
        """Every token's string, a line an id, UTF-8; empty where no token has the id."""
        return vocabulary_lines([self.surface(i) or "" for i in range(self.vocab_size)])

    def serialized(self) -> bytes:
        """This tokenizer as a `tokenizer.json`, which `load_tokenizer` reads back as its equal."""
        text: str = self._core.to_str()
        return text.encode()

    def normalize(self, text: str) -> str:
        """`text` as this tokenizer compares it (lower-cased, without accents), nothing split off."""
        return str(self._word_normalizer.normalize_str(text)) if self._word_normalizer else text

    def encode_texts(self, texts: Sequence[str]) -> Tokens:
        """Tokens of every text, without special tokens.

        A text longer than `SLICE_CHARS` is tokenized in pieces, cut before a space or after CJK
        punctuation; if it has neither, hard.
        """
        none = np.zeros(0, np.int32)
        parts = [(none, none, none)]
        lengths = np.zeros(len(texts), np.int64)
        for owners, shifts, pieces in _slices(texts):
            ids, starts, stops, sizes = self._encode(pieces)
            if any(shifts):
                shift = np.repeat(np.asarray(shifts, np.int32), sizes)
                starts, stops = starts + shift, stops + shift
            parts.append((ids, starts, stops))
            np.add.at(lengths, owners, sizes)
        ids, starts, stops = (np.concatenate(part) for part in zip(*parts, strict=True))
        return Tokens(ids, starts, stops, bounds(lengths))

    def _encode_plainly(self, texts: list[str]) -> Pieces:
        """Tokens of texts that are no longer than a slice together."""
        encodings = self._core.encode_batch(texts, add_special_tokens=False)
        sizes = np.fromiter(map(len, encodings), np.int64, len(encodings))
        total = int(sizes.sum())
        ids = np.fromiter(chain.from_iterable([e.ids for e in encodings]), np.int32, total)
        ids[self._control[ids]] = self.unknown_id
        pairs = chain.from_iterable(chain.from_iterable([e.offsets for e in encodings]))
        span = np.fromiter(pairs, np.int32, 2 * total).reshape(-1, 2)
        _widen(span)
        return Pieces(ids, span[:, 0], span[:, 1], sizes)

    def encode_ids(self, texts: Sequence[str]) -> tuple[NDArray[np.int32], Ints]:
        """Ids int32[N] and offsets int64[n+1] alone, for text that nothing points into."""
        ids, _, _, offsets = self.encode_texts(texts)
        return ids, offsets

    def encode_units(
        self, texts: Sequence[str], starts: ArrayLike, stops: ArrayLike, offsets: ArrayLike
    ) -> tuple[Tokens, Ints, int]:
        """Tokens of every text with each source token tokenized by itself: no piece spans two of them.

        Args:
            texts: n texts.
            starts, stops: [U], source tokens' characters in their text.
            offsets: [n+1], text i has source tokens `offsets[i]:offsets[i + 1]`.

        Returns:
            Tokens; the source token of each, int64[N]; and how many source tokens had no piece of
            their own (control characters): each of those is one [UNK] with its offsets.
        """
        first, stop = np.asarray(starts, np.int64), np.asarray(stops, np.int64)
        offs = np.asarray(offsets, np.int64)
        owner = np.repeat(np.arange(len(texts)), np.diff(offs))
        distinct: dict[str, int] = {}
        spans = zip(owner.tolist(), first.tolist(), stop.tolist(), strict=True)
        which = np.fromiter(
            (distinct.setdefault(texts[t][a:b], len(distinct)) for t, a, b in spans), np.int64, len(first)
        )
        pieces = self.encode_texts(list(distinct))
        own = np.diff(pieces.offsets)[which]
        sizes = np.maximum(own, 1)
        unit = np.repeat(np.arange(len(first), dtype=np.int64), sizes)
        has = own[unit] > 0
        source = ranges(pieces.offsets[which], own)
        ids = np.full(len(unit), self.unknown_id, np.int32)
        begin, end = first[unit], stop[unit]
        ids[has] = pieces.ids[source]
        end[has] = begin[has] + pieces.stops[source]
        begin[has] += pieces.starts[source]
        tokens = Tokens(ids, begin.astype(np.int32), end.astype(np.int32), bounds(sizes)[offs])
        return tokens, unit, int((own == 0).sum())


def load_tokenizer(spec: str, *, config_path: str = "", lowercase: bool = True) -> Tokenizer:
    """A `vocab.txt`, a `tokenizer.json`, a folder that holds either, or a hub id.

    Args:
        spec: as the config has it; a relative path counts from the folder of `config_path`.
        lowercase: for `vocab.txt`: lower-case and strip accents, as BERT uncased and Chinese do.

    Raises:
        ConfigError: nothing there, not readable as a tokenizer, a special token missing, a
            duplicate entry.
    """
    path = _find(spec, resolve(config_path, spec) if config_path else spec, config_path)
    if path is None:
        return _from_hub(spec)
    content = files.read_bytes(path)
    if path.endswith(".json"):
        try:
            core = tokenizers.Tokenizer.from_str(content.decode("utf-8"))
        except Exception as error:  # the library raises bare Exception
            raise ConfigError(f"encode.tokenizer: {path} is not a tokenizer.json: {error}") from None
        return Tokenizer(core, Path(spec).name, content)
    vocab = parse_vocab(content, path, "encode.tokenizer")
    core = tokenizers.Tokenizer(
        models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=MAX_WORD_CHARS)  # noqa: S106
    )
    core.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return Tokenizer(core, Path(spec).name, content)


def parse_vocab(content: bytes, path: str, field: str) -> dict[str, int]:
    """Token to id from a `vocab.txt`: a token a line, the line's number from 0 its id.

    LF or CRLF end a line, nothing else does; a byte order mark is skipped; a blank line keeps its
    id and matches nothing. Raises ConfigError naming `field`.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{field}: {path} is not UTF-8: {error}") from None
    vocab: dict[str, int] = {}
    for index, line in enumerate(text.split("\n")):
        token = line.removesuffix("\r")
        if token in vocab:
            raise ConfigError(
                f"{field}: {path} has {token!r} twice, in lines {vocab[token] + 1} and {index + 1}; "
                "every token needs one id"
            )
        if token:
            vocab[token] = index
    if missing := [names[0] for names in SPECIAL_TOKENS.values() if names[0] not in vocab]:
        raise ConfigError(
            f"{field}: {path} lacks the special tokens {', '.join(missing)}; a vocabulary lists a token a line, "
            "those five among them"
        )
    return vocab


def vocabulary_lines(tokens: Sequence[str]) -> bytes:
    """`tokens` a line each; a line end inside a token is written as an escape, so that lines count ids."""
    escaped = (
        token.replace("\\", "\\\\").replace("\n", "\\n") if "\n" in token else token for token in tokens
    )
    return "".join(f"{token}\n" for token in escaped).encode("utf-8", "backslashreplace")


def _find(spec: str, path: str, config_path: str) -> str | None:
    """The file that `spec` means, once resolved to `path`; None if it can only be a hub id. Raises ConfigError."""
    if files.is_uri(path):
        return path
    local = Path(path)
    if local.is_dir():
        for name in ("tokenizer.json", "vocab.txt"):
            if (local / name).exists():
                return str(local / name)
        raise ConfigError(f"encode.tokenizer: folder {path} holds neither tokenizer.json nor vocab.txt")
    if local.exists():
        return path
    if local.suffix in (".txt", ".json") or spec.startswith((".", "/", "~")) or spec.count("/") > 1:
        vocab = f"; `treegraft vocab {config_path or 'CONFIG'}` makes it from the corpus"
        made = vocab if path.endswith(".txt") else ""
        raise ConfigError(f"encode.tokenizer: file {path} does not exist{made}")
    return None


def _from_hub(name: str) -> Tokenizer:
    import huggingface_hub as hub

    try:
        # What is in no cache is asked for once: a download would try six times, and be half a minute about it.
        if not isinstance(hub.try_to_load_from_cache(name, "tokenizer.json"), str):
            hub.get_hf_file_metadata(hub.hf_hub_url(name, "tokenizer.json"))
        core = tokenizers.Tokenizer.from_pretrained(name)
    except Exception as error:  # the library raises bare Exception
        raise ConfigError(
            f"encode.tokenizer: {name!r} is no file, and as a hub id it could not be fetched ({error}). Without a "
            "network, download the model's tokenizer.json or vocab.txt once and give its path."
        ) from None
    return Tokenizer(core, name, core.to_str().encode())


def _special_ids(core: tokenizers.Tokenizer, body: dict[str, Any], name: str) -> dict[str, int]:
    found = {
        role: next((i for n in names if (i := core.token_to_id(n)) is not None), None)
        for role, names in SPECIAL_TOKENS.items()
    }
    if missing := [" or ".join(SPECIAL_TOKENS[role]) for role, token_id in found.items() if token_id is None]:
        raise ConfigError(
            f"encode.tokenizer: {name} ({body['model'].get('type', 'unknown')} model) lacks the special tokens "
            f"{', '.join(missing)}; encoders such as BERT need all five"
        )
    return {role: token_id for role, token_id in found.items() if token_id is not None}


def _word_normalizer(description: dict[str, Any] | None) -> Any:
    """The normalizer without the spaces that BERT's puts around Chinese characters."""
    if description is None:
        return None
    plain = json.loads(json.dumps(description))
    for part in [plain, *(plain.get("normalizers") or [])]:
        if part.get("type") == "BertNormalizer":
            part["handle_chinese_chars"] = False
    model = {"type": "WordPiece", "unk_token": "", "continuing_subword_prefix": "##", "vocab": {}}
    body = {"version": "1.0", "normalizer": plain, "added_tokens": []}
    body["model"] = model | {"max_input_chars_per_word": 1}
    return tokenizers.Tokenizer.from_str(json.dumps(body)).normalizer


def _widen(span: NDArray[np.int32]) -> None:
    """Give byte-level tokens that are white space, whose offsets are trimmed to nothing, that space back."""
    empty = span[:, 0] == span[:, 1]
    if empty.any():
        at_start = span[:, 0] == 0  # a space that the tokenizer put in front of the text
        span[empty & ~at_start, 0] -= 1
        span[empty & at_start, 1] = 1


def _slices(texts: Sequence[str]) -> Iterator[tuple[list[int], list[int], list[str]]]:
    """(text index, first character, piece) columns, about `SLICE_CHARS` of text at a time."""
    owners: list[int] = []
    shifts: list[int] = []
    pieces: list[str] = []
    size = 0
    for owner, text in enumerate(texts):
        start = 0
        while start < len(text):
            stop = _piece_stop(text, start)
            owners.append(owner)
            shifts.append(start)
            pieces.append(text if start == 0 and stop == len(text) else text[start:stop])
            size += stop - start
            start = stop
            if size >= SLICE_CHARS:
                yield owners, shifts, pieces
                owners, shifts, pieces, size = [], [], [], 0
    if pieces:
        yield owners, shifts, pieces


def _piece_stop(text: str, start: int) -> int:
    """Where the piece from `start` ends: the last soft cut of the window, looked for from its end."""
    limit = start + SLICE_CHARS
    if limit >= len(text):
        return len(text)
    low = limit
    while low > start + 1:
        low = max(low - _LOOK_BACK, start + 1)
        if cuts := [match.start() for match in _SOFT_CUT.finditer(text, low, limit)]:
            return cuts[-1]
    return limit
