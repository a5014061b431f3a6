"""Subjects in text: folding, word boundaries, the automaton of all subjects, and the matcher over them."""

from kg.match.matcher import Matcher, Mentions, code_points
from kg.match.places import Occurrence, Places, Why

__all__ = ["Matcher", "Mentions", "Occurrence", "Places", "Why", "code_points"]
