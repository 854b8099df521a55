"""The page of `amend ui`: files as they are served, without a build step."""
