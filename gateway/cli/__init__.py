"""`specgate`: start the server, see it work, ask what was used, look after tenants, keys, deployments and limits."""

import typer

from gateway.cli import audit, config, database, deployments, keys, limits, prices, tenants, usage
from gateway.cli.apply import apply, diff, print_schema
from gateway.cli.backup import backup, restore
from gateway.cli.demo import demo
from gateway.cli.demo_traffic import demo_traffic
from gateway.cli.ledger import adjust
from gateway.cli.rebuild import rebuild_usage
from gateway.cli.serve import serve
from gateway.cli.statement import statement

app = typer.Typer(
    help=__doc__,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(serve)
app.command()(demo)
app.command()(demo_traffic)
app.command()(diff)
app.command()(apply)
app.command("schema")(print_schema)
app.command()(backup)
app.command()(restore)
usage.app.command("rebuild")(rebuild_usage)
usage.app.command()(statement)
app.add_typer(usage.app, name="usage")
app.add_typer(tenants.app, name="tenants")
app.add_typer(keys.app, name="keys")
app.add_typer(deployments.app, name="deployments")
app.add_typer(limits.app, name="limits")
app.add_typer(prices.app, name="prices")
app.add_typer(audit.app, name="audit")
app.add_typer(config.app, name="config")
app.add_typer(database.db, name="db")
database.ledger.command()(adjust)
app.add_typer(database.ledger, name="ledger")
