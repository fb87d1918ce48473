// Holds what the server sends against the SDKs' own declarations: every field they demand, of the type they say, and none
// that they do not know.
import assert from 'node:assert/strict';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

// Where the packages are found from; there is no such file.
const name = fileURLToPath(new URL('received.mts', import.meta.url));
const options = {
  target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  strict: true,
  noEmit: true,
  skipLibCheck: true,
  types: [],
  // Not those of browsers: they are long, and nothing received has to do with them.
  lib: ['lib.es2022.d.ts'],
};

function errorsOf(source) {
  const host = ts.createCompilerHost(options);
  const { getSourceFile, fileExists } = host;
  host.fileExists = (file) => file === name || fileExists(file);
  host.getSourceFile = (file, ...rest) =>
    file === name ? ts.createSourceFile(file, source, options.target) : getSourceFile(file, ...rest);
  const program = ts.createProgram([name], options, host);
  const file = program.getSourceFile(name);
  return [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)];
}

/// Values as they came over the wire, each with the name of its type.
export class Received {
  #imports;
  #declarations = new Map();

  /// `imports`: the lines that bring the types in.
  constructor(imports) {
    this.#imports = imports;
  }

  /// `extensions`: documented fields the SDK does not know, by the path of the object they are in ('' is `value`, 'choices[]'
  /// each entry of its array).
  add(type, value, extensions = {}) {
    const copy = structuredClone(value);
    for (const [at, names] of Object.entries(extensions)) {
      for (const object of reach(copy, at)) for (const name of names) delete object[name];
    }
    this.#declarations.set(`const value: ${type} = ${JSON.stringify(copy)};`, type);
  }

  /// The check: once, at the end, as the compiler takes its time.
  check() {
    assert.ok(this.#declarations.size > 0, 'nothing was received');
    const blocks = [...this.#declarations.keys()].map((text) => `{ ${text} }`);
    const source = `${this.#imports}\n${blocks.join('\n')}\n`;
    const lines = source.split('\n');
    const errors = new Map();
    for (const error of errorsOf(source)) {
      const { line } = error.file.getLineAndCharacterOfPosition(error.start);
      errors.set(ts.flattenDiagnosticMessageText(error.messageText, '\n'), lines[line]);
    }
    assert.deepEqual([...errors].map(([message, value]) => `${message}\n  in ${value}`), []);
  }
}

function reach(value, at) {
  let objects = [value];
  for (const step of at.split('.').filter(Boolean)) {
    const name = step.replace('[]', '');
    objects = objects.flatMap((object) => object?.[name] ?? []);
  }
  return objects;
}
