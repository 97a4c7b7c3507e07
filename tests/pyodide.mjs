// Runs Python programs in one Pyodide: node pyodide.mjs <where Pyodide is> <what to import from>
// They come on stdin as {"name": "program"}, and what each prints leaves on stdout, as a line of JSON.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [pyodide, checkout] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(join(pyodide, "pyodide.mjs")));
const python = await loadPyodide({ indexURL: pyodide });
python.FS.mkdir("/checkout");
python.FS.mount(python.FS.filesystems.NODEFS, { root: checkout }, "/checkout");
python.runPython("import sys; sys.dont_write_bytecode = True; sys.path.insert(0, '/checkout')");
for (const [name, program] of Object.entries(JSON.parse(readFileSync(0, "utf8")))) {
    const lines = [];
    python.setStdout({ batched: (line) => lines.push(line) });
    try {
        python.runPython(program, { globals: python.toPy({ __name__: "__main__" }) });
    } catch (error) {
        console.error(`${name}: ${error.message}`);
        if (error.pyodide_fatal_error) process.exit(1); // after which Pyodide runs nothing
        continue;
    }
    console.log(JSON.stringify([name, lines]));
}
