"""`python -m gateway` is `specgate`."""

import sys


def main() -> None:
    try:
        from gateway.cli import app  # takes most of a second; Ctrl-C meanwhile is no accident

        app(prog_name="specgate")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
