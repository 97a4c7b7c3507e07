// Python, as Pyodide, with the checkout's files: a message with a cell is answered by its outputs and the files they show
import { loadPyodide } from "./pyodide/pyodide.mjs";

async function load() {
  const [python, archive] = await Promise.all([loadPyodide(), fetch("checkout.zip").then((reply) => reply.arrayBuffer())]);
  python.unpackArchive(archive, "zip", { extractDir: "/checkout" });
  python.runPython(`
import json, os, re, sys
sys.path.insert(0, "/checkout")
from tests.pages.cells import runner
run = runner("/home/pyodide/work")

def answer(source):
    outputs = run(source)
    paths = {path for output in outputs for path in re.findall('<iframe src="([^"]+)"', str(output.get("data")))}
    files = {path: open(path, encoding="utf-8").read() for path in paths if os.path.exists(path)}
    return json.dumps({"outputs": outputs, "files": files})
`);
  return python;
}

const loaded = load();
loaded.then(
  (python) => postMessage({ ready: `Python ${python.runPython("sys.version.split()[0]")}` }),
  (error) => postMessage({ failed: error.message }),
);
onmessage = async ({ data }) => {
  const answer = (await loaded).globals.get("answer");
  postMessage(JSON.parse(answer(data)));
  answer.destroy();
};
