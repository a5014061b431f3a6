"""YAML of settings: numbers are what they look like, and a small file is a small value."""

from __future__ import annotations

import pytest
import yaml

from corpora import sections
from corpora.sections import SettingsError, parse_yaml, read_yaml


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("steps: 010", "010 is 8 in YAML 1.1: write 10 for the number, or '010' in quotes"),
        ("steps: -0_17", "-0_17 is -15 in YAML 1.1: write -17"),
        ("a: {b: [1:30]}", "1:30 is 90 in YAML 1.1: write 90"),
        ("rate: 1:30.5", r"1:30.5 is 90.5 in YAML 1.1"),
        ("010: a", "010 is 8"),
        ("a: 0_", "0_ is 0 in YAML 1.1: write 0 "),
        ("a: 0__1", "0__1 is 1 in YAML 1.1: write 1 "),
    ],
)
def test_a_number_that_is_read_otherwise_than_it_looks_is_refused(text, says):
    with pytest.raises(yaml.YAMLError, match=says):
        parse_yaml(text)


def test_other_numbers_and_words_are_as_they_were():
    text = "[0, 10, 0x10, 0b11, 1_000, 0.5, 00.5, -3, '010', '1:30', a:b, s3://a:80/b, 09, 1e-4]"
    found = [0, 10, 16, 3, 1000, 0.5, 0.5, -3, "010", "1:30", "a:b", "s3://a:80/b", "09", "1e-4"]
    assert parse_yaml(text) == found


@pytest.mark.parametrize(
    "value",
    [
        "!!int 'a:b'",
        "!!int ''",
        "!!float x",
        "!!bool x",
        "!!timestamp x",
        "2020-13-45",
        "9" * 5000,
        "1:" * 250 + "1.5",
    ],
)
def test_a_value_that_is_none_of_its_kind_is_refused(value, tmp_path):
    with pytest.raises(yaml.YAMLError, match="a value that is none of its kind"):
        parse_yaml(f"a: {value}")
    (tmp_path / "recipe.yaml").write_text(f"a: {value}")
    with pytest.raises(SettingsError, match=r"^recipe .*recipe\.yaml is not valid YAML: "):
        read_yaml(tmp_path / "recipe.yaml", "recipe")


def test_aliases_are_followed_but_do_not_blow_up(monkeypatch):
    assert parse_yaml("a: &x {b: 1}\nc: *x\nd: {<<: *x}") == {"a": {"b": 1}, "c": {"b": 1}, "d": {"b": 1}}
    lines = [f"- &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    for text in ("\n".join(["- &a0 [1]", *lines]), "\n".join(["- &a0 {b: 1}", *lines, "- {<<: *a11}"])):
        with pytest.raises(yaml.YAMLError, match=r"its aliases make [0-9,]+ values of "):
            parse_yaml(text)
    with pytest.raises(yaml.YAMLError, match="an alias holds itself"):
        parse_yaml("a: &a [*a]")
    monkeypatch.setattr(sections, "_MOST_VALUES", 10)
    assert parse_yaml("[" + "1, " * 30 + "]") == [1] * 30
