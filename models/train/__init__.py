"""What becomes of a recipe: training, one loop with checkpoints that survive a kill; evaluation; texts.

A recipe (`recipe`, read by `reading`) says everything; `parts` and `data` make model, optimizer and rows of it; `loop`
trains; `folder` is the folder of a run, `state` keeps in it what a run needs to go on, `facts` what it was,
`interrupt` lets a step end before it stops; `log` and `curves` tell of it. `evaluating` and `generating` are what the
commands of those names do with a trained model.
"""
