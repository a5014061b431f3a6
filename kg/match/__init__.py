"""Subjects in text: folding, word boundaries, the automaton of all subjects, and the matcher over them."""

from kg.match.matcher import Matcher, Mentions, Occurrence, Why, code_points

__all__ = ["Matcher", "Mentions", "Occurrence", "Why", "code_points"]
