// Reads payloads by sealcar's gRPC.
import { readFileSync } from "node:fs";
import { type ChannelCredentials, credentials, type ServiceError } from "@grpc/grpc-js";
import type { Scope } from "./generated/sealcar/v1/common";
import { PayloadsClient, ReadRequest, type ReadResponse } from "./generated/sealcar/v1/payloads";

export type Answer<T> = (error: ServiceError | null, answer: T) => void;

export function call<T>(begin: (answer: Answer<T>) => unknown): Promise<T> {
  return new Promise((resolve, reject) =>
    begin((error, answer) => (error ? reject(error) : resolve(answer))),
  );
}

export function address(target: string): string {
  return target.startsWith("/") ? `unix:${target}` : target;
}

// On a Unix socket the daemon takes no credentials and asks the kernel who calls; elsewhere both show certificates.
export function identity(target: string): ChannelCredentials {
  if (target.startsWith("/")) return credentials.createInsecure();
  const [ca, key, certificate] = ["CA", "KEY", "CERT"].map((each) => readFileSync(process.env[`SEALCAR_TLS_${each}`]!));
  return credentials.createSsl(ca, key, certificate);
}

export function connect(target: string): PayloadsClient {
  return new PayloadsClient(address(target), identity(target));
}

// A payload counts only when its stream ended without an error, which the loop throws.
export async function read(payloads: PayloadsClient, scope: Scope, name: string): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const piece of payloads.read(ReadRequest.fromPartial({ scope, name }))) {
    pieces.push(Buffer.from((piece as ReadResponse).data));
  }
  return Buffer.concat(pieces);
}
