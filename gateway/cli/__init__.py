"""`specgate`: start the server, see it work, ask what was used, look after keys, settings and database."""

import typer

from gateway.cli import config, database, keys
from gateway.cli.demo import demo
from gateway.cli.serve import serve
from gateway.cli.usage import usage

app = typer.Typer(
    help=__doc__,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(serve)
app.command()(demo)
app.command()(usage)
app.add_typer(keys.app, name="keys")
app.add_typer(config.app, name="config")
app.add_typer(database.db, name="db")
app.add_typer(database.ledger, name="ledger")
