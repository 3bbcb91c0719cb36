"""The `tink` package as a peer: it seals and opens what sealcar opens and seals."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import tink
from tink import secret_key_access, streaming_aead
from tink.proto import aes_gcm_hkdf_streaming_pb2, common_pb2, tink_pb2

from sealcar_server.sealing.derivation import PayloadKey
from sealcar_server.sealing.layout import Params

if TYPE_CHECKING:
    from collections.abc import Mapping

streaming_aead.register()


class _Sink(io.BytesIO):
    """Keeps what was written when the stream closes it."""

    content = b""

    def close(self) -> None:
        if not self.closed:
            self.content = self.getvalue()
        super().close()


def tink_keyset(key: PayloadKey) -> Any:  # noqa: ANN401  (tink publishes no types)
    """Return the key as a keyset of one key."""
    value = aes_gcm_hkdf_streaming_pb2.AesGcmHkdfStreamingKey(key_value=key.key)
    value.params.ciphertext_segment_size = key.params.segment
    value.params.derived_key_size = key.params.derived_key
    value.params.hkdf_hash_type = common_pb2.HashType.Value(key.params.digest)
    keyset = tink_pb2.Keyset(primary_key_id=1)
    entry = keyset.key.add(key_id=1, status=tink_pb2.ENABLED, output_prefix_type=tink_pb2.RAW)
    entry.key_data.type_url = "type.googleapis.com/google.crypto.tink.AesGcmHkdfStreamingKey"
    entry.key_data.value = value.SerializeToString()
    entry.key_data.key_material_type = tink_pb2.KeyData.SYMMETRIC
    return tink.proto_keyset_format.parse(keyset.SerializeToString(), secret_key_access.TOKEN)


def tink_seal(key: PayloadKey, plain: bytes) -> bytes:
    """Seal with tink's own writer."""
    sink = _Sink()
    primitive = tink_keyset(key).primitive(streaming_aead.StreamingAead)
    with primitive.new_encrypting_stream(sink, key.associated_data) as stream:
        stream.write(plain)
    return sink.content


def tink_unseal(key: PayloadKey, sealed: bytes) -> bytes:
    """Open with tink's own reader; raises tink.TinkError or what its stream raises."""
    primitive = tink_keyset(key).primitive(streaming_aead.StreamingAead)
    with primitive.new_decrypting_stream(io.BytesIO(sealed), key.associated_data) as stream:
        content: bytes = stream.read()
    return content


def keys_of(keyset: Mapping[str, Any], associated_data: bytes) -> list[PayloadKey]:
    """Return the keys of a Tink JSON keyset, each with this associated data."""
    handle = tink.json_proto_keyset_format.parse(json.dumps(keyset), secret_key_access.TOKEN)
    data = tink.proto_keyset_format.serialize(handle, secret_key_access.TOKEN)
    keys = []
    for entry in tink_pb2.Keyset.FromString(data).key:
        value = aes_gcm_hkdf_streaming_pb2.AesGcmHkdfStreamingKey.FromString(entry.key_data.value)
        params = Params(
            value.params.ciphertext_segment_size,
            value.params.derived_key_size,
            common_pb2.HashType.Name(value.params.hkdf_hash_type),
        )
        keys.append(PayloadKey(value.key_value, associated_data, params))
    return keys
