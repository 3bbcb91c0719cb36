"""What stands before every gRPC method: who calls, how many at once, errors, figures.

Servicers behind it only translate; an error that they raise reaches the caller as its own status.
"""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import grpc
import structlog

from sealcar.errors import InternalError, SealcarError
from sealcar_server import spans
from sealcar_server.endpoints import protocol, request_ids
from sealcar_server.endpoints.grpc_errors import code_of, status_of
from sealcar_server.endpoints.refusal_lines import RefusalLines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sealcar_server.endpoints.grpc_streams import Streams, Waiting

_HEALTH: Final = "/grpc.health.v1.Health/"  # says nothing that only some may know
_log: Final = structlog.get_logger("sealcar.grpc")


class Observer(Protocol):
    """Takes the figures."""

    def called(self, method: str, code: str, seconds: float) -> None:
        """Count a call that ended."""


@dataclass
class _Asked:
    """A call while it is answered; on whose account is empty until that is known."""

    account: str = ""


class Guard(grpc.ServerInterceptor):
    """Wraps every method but those of health.

    Args:
        account_of: tells on whose account a call is, or raises; so no method runs for nobody.
        streams: limits of streaming calls.
        observer: told of each call's end.
        account: entered around each call, with its name, and whether it sends much before it ends;
            what it raises refuses the call.
        tracing: makes spans.
    """

    def __init__(
        self,
        account_of: Callable[[grpc.ServicerContext], str],
        streams: Streams,
        observer: Observer,
        account: Callable[[str, bool], AbstractContextManager[object]] = lambda *_: nullcontext(),
        tracing: spans.Tracing = spans.UNTRACED,
    ) -> None:
        self._account = account
        self._tracing = tracing
        self._account_of = account_of
        self._streams = streams
        self._observer = observer
        self._lines = RefusalLines()

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], grpc.RpcMethodHandler[Any, Any] | None],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        """Return the method wrapped."""
        handler = continuation(handler_call_details)
        if handler is None or handler_call_details.method.startswith(_HEALTH):
            return handler
        name = handler_call_details.method.strip("/").rpartition(".")[2].replace("/", ".")
        coders = (handler.request_deserializer, handler.response_serializer)
        if handler.unary_unary:
            return grpc.unary_unary_rpc_method_handler(
                self._unary(name, handler.unary_unary), *coders
            )
        if handler.unary_stream:
            behaviour = self._stream(name, handler.unary_stream, streamed_request=False)
            return grpc.unary_stream_rpc_method_handler(behaviour, *coders)
        if handler.stream_unary:
            behaviour = self._gathering(name, handler.stream_unary)
            return grpc.stream_unary_rpc_method_handler(behaviour, *coders)
        behaviour = self._stream(
            name, cast("Callable[..., Any]", handler.stream_stream), streamed_request=True
        )
        return grpc.stream_stream_rpc_method_handler(behaviour, *coders)

    def _unary(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(request: Any, context: grpc.ServicerContext) -> Any:  # noqa: ANN401  (any message)
            with self._answering(name, context) as asked:
                asked.account = self._account_of(context)
                with self._account(name, False):  # noqa: FBT003  (a hook's argument)
                    return method(request, context)

        return call

    def _gathering(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(requests: Iterator[Any], context: grpc.ServicerContext) -> Any:  # noqa: ANN401  (any message)
            with self._streaming(name, context) as waiting:
                return method(waiting.on_client(requests), context)

        return call

    def _stream(
        self, name: str, method: Callable[..., Any], *, streamed_request: bool
    ) -> Callable[..., Iterator[Any]]:
        def call(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:  # noqa: ANN401  (any message)
            with self._streaming(name, context) as waiting:
                source = waiting.on_client(request) if streamed_request else request
                yield from waiting.to_client(method(source, context))

        return call

    @contextmanager
    def _streaming(self, name: str, context: grpc.ServicerContext) -> Iterator[Waiting]:
        with self._answering(name, context) as asked:
            asked.account = self._account_of(context)
            with (
                self._streams.one(context, asked.account) as waiting,
                self._account(name, True),  # noqa: FBT003  (a hook's argument)
            ):
                yield waiting

    @contextmanager
    def _answering(self, method: str, context: grpc.ServicerContext) -> Iterator[_Asked]:
        started = time.monotonic()
        request = request_ids.of_call(context)
        span = self._tracing.begin(method, *request_ids.place_of(context))
        span.tell(request_id=request)
        request_ids.begin(request, span)
        said = ((request_ids.FIELD, request),)
        context.set_trailing_metadata(said)
        code = grpc.StatusCode.OK
        asked = _Asked()
        try:
            protocol.check_call(context)
            yield asked
        except SealcarError as error:
            code = code_of(error)
            span.end(error)
            known = {"account": asked.account} if asked.account else {}
            values = {"method": method, "code": code.name, "error": str(error), **known}
            self._lines.tell(_log.info, asked.account, "call refused", **values)
            context.abort_with_status(status_of(error, said, request))
        except (grpc.RpcError, GeneratorExit) as error:
            code = grpc.StatusCode.CANCELLED  # by the client, or for being idle
            span.end(error)
            raise
        except Exception:  # noqa: BLE001  (whatever it is, the caller gets a typed error)
            code = grpc.StatusCode.INTERNAL
            _log.exception("call failed", method=method)
            defect = InternalError("a defect; the daemon's log has more")
            span.end(defect)
            context.abort_with_status(status_of(defect, said, request))
        finally:
            span.end()
            self._observer.called(method, code.name, time.monotonic() - started)
            request_ids.end()
