"""Folders that results go into: what is a file, what cannot be made, whose files lie there."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.engine import WORK, RunError, only_writer
from pipelines.folders import check_folder, marked, refuse_strangers
from pipelines.section import ConfigError


def test_a_folder_may_be_new_but_no_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for fine in (str(tmp_path), str(tmp_path / "new/newer"), "new", "memory://file"):
        check_folder(fine)
    for path in (tmp_path / "file", tmp_path / "file/below/it"):
        with pytest.raises(ConfigError, match=r"^--annotated: .*/file is a file; name a folder"):
            check_folder(str(path), "--annotated")


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(ConfigError, match=r"--out .*below cannot be made or written to \(Not a directory\)"),
        only_writer(str(tmp_path / "file/below")),
    ):
        pass


def test_files_are_a_users_own_unless_a_run_left_its_mark(tmp_path: Path) -> None:
    folder = str(tmp_path)
    (tmp_path / WORK).mkdir()
    refuse_strangers(folder, ["a", "b"])
    (tmp_path / "b").write_text("")
    with pytest.raises(RunError, match=r"holds b, but .* --overwrite"):
        refuse_strangers(folder, ["a", "b"])
    refuse_strangers(folder, ["a"])
    with pytest.raises(KeyboardInterrupt), marked(folder):
        raise KeyboardInterrupt
    refuse_strangers(folder, ["a", "b"])
    with marked(folder):
        pass
    assert not list((tmp_path / WORK).iterdir())
    with pytest.raises(RunError):
        refuse_strangers(folder, ["a", "b"])
