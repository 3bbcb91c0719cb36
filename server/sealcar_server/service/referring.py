"""Which shared assets a written variant may refer to.

Who may read a variant may read the assets that it refers to. So a writer can't open an asset to the
readers of a component that couldn't read it before, unless he may read it himself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sealcar.errors import InvalidRequestError
from sealcar_server.service.references import named

if TYPE_CHECKING:
    from collections.abc import Callable

    from sealcar_server.sealing.strictjson import JsonValue
    from sealcar_server.service.opened import OpenedPackage


def check_references(
    opened: OpenedPackage,
    component: str,
    executor_info: JsonValue,
    may_read: Callable[[str], bool],
) -> None:
    """Check what a variant that is being written refers to.

    Args:
        opened: the package.
        component: of the variant.
        executor_info: of the variant.
        may_read: tells of a component whether the writer may read it.

    Raises:
        InvalidRequestError: it names an asset that the package hasn't got, or one that only
            components use that the writer may not read.
    """
    for uri in named(executor_info):
        users = {variant.component for variant in opened.users_of(uri)}
        if component not in users and not any(map(may_read, users)):
            raise InvalidRequestError(f"executor_info names {uri}, no asset that the caller reads")
