"""Training: recipes, one loop, checkpoints that survive a kill.

A recipe (`recipe`) says everything; `parts` makes model, data and optimizer of it; `loop` trains; `state` keeps what a
run needs to go on; `log` and `curves` tell of it; `ranks` is all there is of several processes.
"""
