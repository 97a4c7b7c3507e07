"""The command: `python -m tests.pages.browser`."""

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.pages.browser import build, pyodide, server

parser = argparse.ArgumentParser(prog="python -m tests.pages.browser", description="The course in a browser.")
parser.add_argument("--port", type=int, default=8000, help="where to serve it")
parser.add_argument("--build", type=Path, metavar="DIRECTORY", help="build it there, and serve nothing")
options = parser.parse_args()

try:
    installed = pyodide()
except RuntimeError as error:
    sys.exit(str(error))
if options.build:
    build(options.build, installed)
    print(f"built: {options.build}, to be put on a web server")
else:
    with TemporaryDirectory() as directory:
        build(Path(directory), installed)
        try:
            serving = server(Path(directory), options.port)
        except OSError as error:
            sys.exit(f"port {options.port} cannot be served: {error.strerror}; choose another one by --port")
        with serving as running:
            print(f"open http://localhost:{running.server_port} in a browser; Ctrl-C ends this")
            try:
                running.serve_forever()
            except KeyboardInterrupt:
                print()
