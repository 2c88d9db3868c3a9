"""Column sets as single handles for kernels.

A kernel that takes a NamedTuple of sixty arrays takes four hundred machine words, at
every call inside every kernel: Numba then needs minutes to compile and a call from Python
costs tens of microseconds. `pack` turns a NamedTuple (nested ones included) into one
reference-counted handle that kernels read with the same dotted names. The arrays are
shared, not copied, and Python reads the handle's fields as before. `@packable` stands on
every NamedTuple that a kernel takes (and here, so that this file counts for the cache).
"""

from __future__ import annotations

import copy
import importlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.core.typing.templates import AttributeTemplate
from numba.experimental import structref
from numba.experimental.jitclass.base import imp_dtor
from numba.experimental.structref import _Utils
from numba.extending import infer_getattr, intrinsic, lower_getattr_generic, register_model

from proreus.kernels.jit import compiled

Columns = TypeVar("Columns", bound=tuple[Any, ...])

_PREFIX, _DOT = "Packed__", "__dot__"
_STRUCTS: dict[type, type] = {}
_PACKERS: dict[type, Callable[[Any], Any]] = {}


def __getattr__(name: str) -> Any:
    """The type of columns that nobody has imported yet.

    Numba keeps the code of all columns of a world under one index, whose types it loads by these names: also
    for a process that needs only some of them, such as an environment, which knows no policies.
    """
    module, _, _ = name.removeprefix(_PREFIX).replace(_DOT, ".").rpartition(".")
    if name.startswith(_PREFIX) and module:
        importlib.import_module(module)
        if name in globals():
            return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class Handle(structref.StructRefProxy):  # type: ignore[misc]
    """The Python face of a packed column set: the dotted names of the NamedTuple it was made of.

    These are attributes of the instance, and Numba reads the type from its slot: to look them up in Python at
    every call of a kernel takes longer than some kernels do.
    """

    columns: Any
    _numba_type_ = structref.StructRefProxy._type

    def __reduce__(self) -> tuple[Any, ...]:
        """For `copy` and `pickle`: packed again from copies of the columns."""
        return pack, (self.columns,)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return self.__reduce__()

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return pack(copy.deepcopy(self.columns, memo))


def packable(columns: type[Columns]) -> type[Columns]:
    """Class decorator: lets instances of this NamedTuple be packed."""
    # Two modules may use one name for their columns; a type of kernels needs one of its own.
    name = _PREFIX + f"{columns.__module__}.{columns.__name__}".replace(".", _DOT)
    struct = type(name, (types.StructRef,), {"__module__": __name__})
    # Numba's cache pickles types by their importable name.
    globals()[name] = struct
    structref.register(struct)
    structref.define_boxing(struct, Handle)
    _STRUCTS[columns] = struct

    def packed(values: Any) -> Any:
        return _filled(values)

    # The order of the columns is part of the machine code, so that is kept with the kernels of their world.
    _PACKERS[columns] = compiled(packed, home=Path(inspect.getfile(columns)))
    return columns


@intrinsic  # type: ignore[untyped-decorator]
def _filled(typing_context: Any, values: Any) -> Any:
    """A new struct whose fields are those of the NamedTuple `values`."""
    struct = _STRUCTS[values.instance_class](list(zip(values.fields, values.types, strict=True)))

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        model = context.data_model_manager[struct.get_data_type()]
        layout = model.get_value_type()
        size = context.get_constant(types.uintp, context.get_abi_sizeof(layout))
        meminfo = context.nrt.meminfo_alloc_dtor(builder, size, imp_dtor(context, builder.module, struct))
        pointer = builder.bitcast(context.nrt.meminfo_data(builder, meminfo), layout.as_pointer())
        builder.store(cgutils.get_null_value(layout), pointer)
        tools = _Utils(context, builder, struct)
        instance = tools.new_struct_ref(meminfo)._getvalue()
        data = tools.get_data_struct(instance)
        for place, (field, kind) in enumerate(zip(values.fields, values.types, strict=True)):
            value = builder.extract_value(args[0], place)
            context.nrt.incref(builder, kind, value)
            setattr(data, field, value)
        return instance

    return struct(values), code


@intrinsic  # type: ignore[untyped-decorator]
def borrowed(typing_context: Any, array: Any) -> Any:
    """The same array without a share in its memory: it, and what is cut out of it, counts no references.

    For kernels at the heart of a loop, where to count costs more than the work: a count is an atomic
    instruction. Whoever lent it must hold the memory for as long, as a kernel's arguments do; it must not be
    returned to Python.
    """
    del typing_context

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _unowned(context, builder, signature.args[0], args[0])

    return array(array), code


def _unowned(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    own = context.make_array(kind)(context, builder, array)
    own.meminfo = cgutils.get_null_value(own.meminfo.type)
    own.parent = cgutils.get_null_value(own.parent.type)
    return own._getvalue()


class LentType(types.Type):  # type: ignore[misc]
    """Of what `lent` returns: a packed column set that counts no references."""

    def __init__(self, struct: Any) -> None:
        self.struct = struct
        super().__init__(name=f"Lent({struct})")

    @property
    def key(self) -> Any:
        """What tells two of them apart."""
        return self.struct


register_model(LentType)(models.OpaqueModel)


@intrinsic  # type: ignore[untyped-decorator]
def lent(typing_context: Any, struct: Any) -> Any:
    """The same column set without a share in it: kernels that take it, and its columns, count no references.

    For entries from Python whose inner kernels are called often: each call takes a share in every column set
    and gives it back, by atomic instructions. The entry's own argument holds the memory meanwhile.
    """
    del typing_context

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _data_of(context, builder, signature.args[0], args[0])

    return LentType(struct)(struct), code


def _data_of(context: Any, builder: Any, struct: Any, value: Any) -> Any:
    data = _Utils(context, builder, struct).get_data_pointer(value)
    return builder.bitcast(data, context.get_value_type(types.voidptr))


@infer_getattr
class _LentAttributes(AttributeTemplate):  # type: ignore[misc]
    key = LentType

    def generic_resolve(self, lent_type: LentType, name: str) -> Any:
        field = lent_type.struct.field_dict.get(name)
        return LentType(field) if isinstance(field, types.StructRef) else field


@lower_getattr_generic(LentType)  # type: ignore[untyped-decorator]
def _lent_field(context: Any, builder: Any, lent_type: LentType, value: Any, name: str) -> Any:
    kind, stored = lent_type.struct.field_dict[name], lent_type.struct.get_data_type()
    layout = context.data_model_manager[stored].get_value_type()
    data = cgutils.create_struct_proxy(stored)(
        context, builder, ref=builder.bitcast(value, layout.as_pointer())
    )
    field = getattr(data, name)
    if isinstance(kind, types.StructRef):
        return _data_of(context, builder, kind, field)
    return _unowned(context, builder, kind, field) if isinstance(kind, types.Array) else field


def private(handle: Columns, **replaced: Any) -> Columns:
    """A second handle over the same arrays, some of its fields replaced.

    Every handle counts its own references: threads that each hold a private one never wait for a shared
    counter.
    """
    columns = cast(Any, handle).columns
    values = {
        name: private(value) if isinstance(value, Handle) else value
        for name, value in zip(columns._fields, columns, strict=True)
    }
    return pack(type(columns)(**{**values, **replaced}))


def pack(columns: Columns) -> Columns:
    """One handle for kernels in place of the NamedTuple; typed as what it stands for."""
    fields = [
        pack(value)
        if type(value) in _STRUCTS
        else np.ascontiguousarray(value)
        if isinstance(value, np.ndarray)
        else value
        for value in columns
    ]
    ready = type(columns)(*fields)
    handle = _PACKERS[type(ready)](ready)
    handle.columns = ready
    vars(handle).update(cast(Any, ready)._asdict())
    return cast(Columns, handle)
