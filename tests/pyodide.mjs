// Runs a Python program, given on stdin, in Pyodide: node pyodide.mjs <where Pyodide is> <what to import from>
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [pyodide, checkout] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(join(pyodide, "pyodide.mjs")));
const python = await loadPyodide();
python.mountNodeFS("/checkout", checkout);
python.runPython("import sys; sys.dont_write_bytecode = True; sys.path.insert(0, '/checkout')");
try {
    python.runPython(readFileSync(0, "utf8"));
} catch (error) {
    console.error(error.message);
    process.exit(1);
}
