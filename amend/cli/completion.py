"""`completion`: the script that teaches a shell to complete amend's words and keys."""
# ruff: noqa: PLC0415  (imported when called: `amend get` starts without what `run` needs)

import click


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for SHELL.

    \b
    bash, in ~/.bashrc:  eval "$(amend completion bash)"
    zsh, in ~/.zshrc:    eval "$(amend completion zsh)"
    fish:  amend completion fish > ~/.config/fish/completions/amend.fish

    It asks amend at each TAB, so an upgrade needs no new one. Keys are those of the repository that
    the shell is in, where a daemon answers.
    """
    from click.shell_completion import get_completion_class

    from amend.cli.main import cli

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(cli, {}, "amend", "_AMEND_COMPLETE").source())
