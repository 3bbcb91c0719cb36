// A client of sealcar's gRPC in TypeScript: lists, reads a payload as a stream, writes it as a new variant.
//
//   node main.js SOCKET|HOST:PORT PACKAGE COMPONENT VARIANT PAYLOAD NEW_VARIANT
import { createHash } from "node:crypto";
import { PayloadKind, Scope } from "./generated/sealcar/v1/common";
import { ListRequest, type ListResponse, PackageStoreClient } from "./generated/sealcar/v1/package_store";
import {
  type BeginResponse, CommitRequest, type CommitResponse, type OpenResponse, WriteRequest,
} from "./generated/sealcar/v1/payloads";
import { address, call, connect, identity, read } from "./sealed";

const PIECE = 512 << 10;
const [target, name, component, variant, payload, added] = process.argv.slice(2);
const store = new PackageStoreClient(address(target), identity(target));
const payloads = connect(target);

async function list(): Promise<string[]> {
  const names: string[] = [];
  let pageToken = "";
  do {
    const page = await call<ListResponse>((answer) => store.list(ListRequest.fromPartial({ pageToken }), answer));
    names.push(...page.packages.map((one) => one.package!.name));
    pageToken = page.nextPageToken;
  } while (pageToken);
  return names;
}

async function write(transaction: Buffer, name: string, kind: PayloadKind, data: Buffer): Promise<void> {
  await call<unknown>((answer) => {
    const stream = payloads.write(answer);
    stream.write(WriteRequest.fromPartial({ begin: { transaction, name, kind } }));
    for (let at = 0; at < data.length; at += PIECE) {
      stream.write(WriteRequest.fromPartial({ data: data.subarray(at, at + PIECE) }));
    }
    stream.end();
  });
}

async function main(): Promise<void> {
  const packages = await list();
  const scope = Scope.fromPartial({ package: { name }, component, variant });
  const opened = await call<OpenResponse>((answer) => payloads.open({ scope, pageToken: "" }, answer));
  const data = await read(payloads, opened.scope!, payload);
  const model = await read(payloads, opened.scope!, "model.onnx");
  const target = { ...scope, variant: added };
  const begun = await call<BeginResponse>((answer) => payloads.begin({ scope: target }, answer));
  await write(begun.transaction, "model.onnx", PayloadKind.PAYLOAD_KIND_MODEL, model);
  await write(begun.transaction, payload, PayloadKind.PAYLOAD_KIND_BLOB, data);
  const commit = CommitRequest.fromPartial({ transaction: begun.transaction, payloads: 2 });
  const committed = await call<CommitResponse>((answer) => payloads.commit(commit, answer));
  const sha256 = createHash("sha256").update(data).digest("hex");
  console.log(JSON.stringify({ packages, sha256, generation: Number(committed.scope!.generation) }));
  store.close();
  payloads.close();
}

main().catch((error) => {
  console.error(String(error));
  process.exitCode = 1;
});
