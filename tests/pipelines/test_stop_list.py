"""Stop lists: lists and files as sets of subjects; what is no such file is a clear error, soon."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipelines import stop_list as module
from pipelines.section import ConfigError
from pipelines.stop_list import stop_list


def test_subjects_of_a_list_and_of_a_file(tmp_path: Path) -> None:
    assert stop_list([" 甲 ", "", "b"], "", "graph.stop") == {"甲", "b"}
    (tmp_path / "stop[1].txt").write_bytes("\ufeff甲\r\n\n b c \n甲".encode())
    assert stop_list("stop[1].txt", str(tmp_path / "c.yaml"), "graph.stop") == {"甲", "b c"}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs FIFOs")
def test_what_is_no_regular_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("/dev/zero")
    for name in ("fifo", "link"):
        with pytest.raises(ConfigError, match=rf"--stop: .*{name}' .*is not a regular file; name a file"):
            stop_list(str(tmp_path / name), "", "--stop")
    for name in (tmp_path, tmp_path / "gone"):
        with pytest.raises(ConfigError, match=r"--stop: .* cannot be read"):
            stop_list(str(name), "", "--stop")


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 10)
    path = tmp_path / "stop.txt"
    path.write_text("a\n" * 5)
    assert stop_list(str(path), "", "--stop") == {"a"}
    path.write_text("a\n" * 6)
    with pytest.raises(ConfigError, match=r"--stop: .*stop\.txt has 12 bytes, at most 10"):
        stop_list(str(path), "", "--stop")
