"""Training: recipes, one loop, checkpoints that survive a kill.

A recipe (`recipe`) says everything; `parts` makes model, data and optimizer of it; `loop` trains; `folder` is the
folder of a run, `state` keeps in it what a run needs to go on, `interrupt` lets a step end before it stops; `log` and
`curves` tell of it; `ranks` is all there is of several processes.
"""
