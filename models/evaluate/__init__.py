"""What a model predicts, and how good that is by the field's own measures.

`evaluate` goes from a model and a split to scores; `predict` gathers predictions; every other file is one kind of
task: its scores over plain values, and what of a model's output they are taken from. Scores are from 0 to 1.
"""
