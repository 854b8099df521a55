"""git, asked safely: the only package that imports GitPython, and only to start commands.

    run        starts one command of a short list so that nothing of the repository's runs
    reading    reads git's own small files without git
    places     finds a repository's directories
    head       reads what is checked out, and names what to watch to notice a change
    trees      asks what a commit or the index holds
    commits    asks which commit brought a path's present state
    moves      asks where a file that is gone went
    baselines  asks whether a file was like this at a time
    history    the door to the last four

Nothing here is on the path of a question: `places` and `head` read a few small files, everything
else starts git, bounded in time and output, in a worker thread.
"""
