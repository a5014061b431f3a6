"""What deduplication promises, on a corpus with planted duplicates."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.conftest import REAL_DATA
from tests.pipelines.dedup import slow
from tests.pipelines.dedup.planted import plant
from tests.pipelines.dedup.running import config, corpus, dedup, gone, plainly


@pytest.mark.parametrize("language", ["zh", "en"])
def test_planted_duplicates_are_found_and_others_kept(tmp_path: Path, language: str) -> None:
    """All exact ones; 95 % of the pairs above 0.8; less than 1 % of those below 0.5 removed."""
    planted = plant(REAL_DATA if REAL_DATA.is_dir() else None, language, 3000)
    corpus(tmp_path, planted.texts)
    with plainly():
        dedup(tmp_path, tmp_path / "out", config(language))
    found = gone(tmp_path / "out", planted.texts)

    assert len(planted.exact) > 550
    for first, second in planted.exact:
        # Where a real text is like a third one, all three are one cluster.
        assert found[second]["kept"] == found.get(first, {"kept": first})["kept"]
        assert first in found or (found[second]["kind"], found[second]["similarity"]) == ("exact", 1.0)

    sets = {
        i: slow.of_text(planted.texts[i], characters=language == "zh", n=5 if language == "zh" else 3)
        for i in itertools.chain(*planted.edited)
    }
    similar, different = [], []
    for first, second in planted.edited:
        similarity = slow.jaccard(sets[first], sets[second])
        if similarity > 0.8:
            similar.append(second in found)
        elif similarity < 0.5:
            different.append(second in found)
        if second in found and found[second]["kept"] == first:
            assert found[second]["similarity"] == pytest.approx(similarity, abs=1e-6)
    assert len(similar) > 150
    assert len(different) > 100
    assert sum(similar) >= 0.95 * len(similar)
    assert sum(different) < 0.01 * len(different)

    # What has no copy stays, but for texts that the real corpus itself holds twice.
    alone = set(range(len(planted.texts))) - set(itertools.chain(*planted.exact, *planted.edited))
    assert len(alone & set(found)) < 0.02 * len(alone)
