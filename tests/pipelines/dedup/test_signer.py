from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.dedup import signer
from pipelines.dedup.minhash import Banding
from pipelines.dedup.signer import Signed, Signer
from tests.pipelines.dedup import slow

TEXT = st.text("ab 好é…ﬁ, ", max_size=60)
BANDING = Banding(3, 2)


def one(signed: Signed, at: int) -> tuple:
    sets = signed.sets.take(np.array([at]))
    keys = signed.keys[:, at].tolist() if len(sets.values) else None
    return signed.digests[at], sets.values.tolist(), keys, bool(signed.cut[at])


@settings(deadline=None)  # the first text pays for the table
@given(st.lists(TEXT, min_size=1, max_size=5), st.integers(1, 5), st.booleans(), st.integers(1, 5))
def test_a_text_alone_in_slices_or_among_others_is_the_same(
    texts: list[str], n: int, characters: bool, most: int
) -> None:
    rule = Signer("zh", BANDING, characters=characters, n=n)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(signer, "MOST", most)
        batch = rule.sign(texts)
        for at, text in enumerate(texts):
            alone = one(rule.sign([text]), 0)
            assert one(batch, at) == alone
            longest = max(map(len, slow.words(text)), default=0)
            if characters or longest <= 7:
                assert one(rule.sign([text], slice_size=7), 0) == alone


@given(st.lists(TEXT, max_size=6))
def test_digests_are_equal_where_folded_texts_are(texts: list[str]) -> None:
    digests = Signer("zh", None, characters=True, n=5).sign(texts).digests
    # What folding leaves nothing of is compared as it is; what is blank, with nothing.
    keys = [slow.fold(text) or (f"\0{text}" if text.strip() else None) for text in texts]
    assert [d == b"" for d in digests] == [key is None for key in keys]
    assert [[a == b for b in digests] for a in digests] == [[a == b for b in keys] for a in keys]


def test_languages_are_never_compared() -> None:
    zh, en = (Signer(lang, BANDING, characters=True, n=2).sign(["abc def"]) for lang in ("zh", "en"))
    assert zh.digests != en.digests
    assert not set(zh.keys.ravel().tolist()) & set(en.keys.ravel().tolist())


def test_sketches_of_long_texts_are_the_smallest_hashes() -> None:
    text = "".join(chr(0x4E00 + i) for i in range(3000))
    short, long = (
        Signer("zh", BANDING, characters=True, n=5).sign([text], slice_size=s) for s in (10**6, 700)
    )
    assert one(short, 0) == one(long, 0)
    assert bool(short.cut[0])
    assert len(short.sets.values) == signer.MOST


def test_different_texts_of_one_shingle_are_never_candidates() -> None:
    """By 32 bits five or so pairs of these would be taken for duplicates."""
    texts = [f"{chr(0x4E00 + n % 20_000)}{n // 20_000}" for n in range(200_000)]
    rule = Signer("zh", Banding(1, 2), characters=True, n=5)
    keys = [rule.sign(texts[at : at + 50_000]).keys[0] for at in range(0, 200_000, 50_000)]
    assert len(np.unique(np.concatenate(keys))) == len(texts)
    same = rule.sign(["啊" * 6, "啊" * 9])
    assert same.keys[0, 0] == same.keys[0, 1]
    assert same.digests[0] != same.digests[1]


def test_a_word_without_end_takes_bounded_memory() -> None:
    """It is cut after two slices at the latest; the text that is hashed as a whole is not."""
    text = "".join(map(str, range(5000))) + " y"
    rule = Signer("en", BANDING, characters=False, n=2)
    cut, whole = rule.sign([text], slice_size=1000), rule.sign([text])
    assert cut.digests == whole.digests
    assert len(whole.sets.values) == 1
    assert len(cut.sets.values) >= len(text) // 2000
