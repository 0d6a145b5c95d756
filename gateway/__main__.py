"""`python -m gateway` is `specgate`."""

from gateway.cli import app

if __name__ == "__main__":
    app(prog_name="specgate")
