// A sealed model in a session of Node's binding of ONNX Runtime: reads a row of floats as JSON, writes the answer.
//
//   node infer.js SOCKET PACKAGE COMPONENT VARIANT
//
// The binding takes a model's bytes and no files beside it, so the model is imported with its weights inside:
// sealcar import --keep-inline.
import { readFileSync } from "node:fs";
import { PayloadKind, Scope } from "./generated/sealcar/v1/common";
import type { OpenResponse } from "./generated/sealcar/v1/payloads";
import { call, connect, read } from "./sealed";

const [socket, name, component, variant] = process.argv.slice(2);
// before the library is loaded, which would keep a database of events on the disk
process.env.ORT_DISABLE_TELEMETRY = "1";

async function model(): Promise<Buffer> {
  const payloads = connect(socket);
  const scope = Scope.fromPartial({ package: { name }, component, variant });
  const opened = await call<OpenResponse>((answer) => payloads.open({ scope, pageToken: "" }, answer));
  const found = opened.variant!.payloads.find((each) => each.kind === PayloadKind.PAYLOAD_KIND_MODEL);
  const data = await read(payloads, opened.scope!, found!.name);
  payloads.close();
  return data;
}

async function main(): Promise<void> {
  const { InferenceSession, Tensor } = await import("onnxruntime-node");
  const session = await InferenceSession.create(await model());
  const row: number[] = JSON.parse(readFileSync(0, "utf8"));
  const { y } = await session.run({ x: new Tensor("float32", row, [1, row.length]) });
  console.log(JSON.stringify(Array.from(y.data as Float32Array)));
}

main().catch((error) => {
  console.error(String(error));
  process.exitCode = 1;
});
