"""A kernel as Python calls it, and as other kernels call it: its code is optimised once for each entry.

Numba optimises a kernel and makes machine code of it, and then does both again for the same kernel in each of
its callers, as a caller holds all that it calls: what lies ten calls deep is optimised ten times, and most of
the machine code never runs. Here what kernels call is only written down. What Python calls is an entry of one
line: it is optimised together with everything below it, and only of entries machine code is made.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from llvmlite import binding as llvm  # type: ignore[import-untyped]
from numba import types
from numba.core.caching import CompileResultCacheImpl
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult, compile_result
from numba.core.registry import CPUDispatcher

_OPTIONS: Mapping[str, Any] = {
    "nopython": True,
    "nogil": True,
    "error_model": "numpy",
    "boundscheck": None,
    "no_cfunc_wrapper": True,
}


class Entry(CPUDispatcher):  # type: ignore[misc]
    """A kernel. Python enters here; other kernels are led on to the callee."""

    def __init__(
        self,
        py_func: Callable[..., Any],
        locals: Mapping[str, Any] | None = None,
        targetoptions: Mapping[str, Any] = _OPTIONS,
    ) -> None:
        # Numba makes a dispatcher that has travelled to another process of these three, by their names.
        super().__init__(py_func, dict(locals or {}), dict(targetoptions))
        self.callee = Callee(py_func, locals, targetoptions)
        entry = _entry_to(self.callee, py_func)
        self._compiler._get_implementation = lambda args, kws: entry

    @property
    def is_compiling(self) -> Any:
        """Asked where a kernel calls itself."""
        return self.callee.is_compiling

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Asked where a kernel calls this one: of what type the answer is."""
        return self.callee.get_call_template(args, kws)

    def get_overload(self, sig: Any) -> Any:
        """Asked where such a call is written down."""
        return self.callee.get_overload(sig)

    def add_overload(self, cres: Any) -> None:
        """As Numba's. Callees were never made ready to run, so their environments are set here."""
        if cres.referenced_envs is None:
            for environment in cres._find_referenced_environments():
                cres.library.codegen.set_env(environment.env_name, environment)
        super().add_overload(cres)


def _entry_to(callee: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the same name and parameters that calls the callee."""
    names = ", ".join(inspect.signature(function).parameters)
    scope: dict[str, Any] = {"callee": callee, "__name__": function.__module__}
    exec(f"def entry({names}):\n    return callee({names})\n", scope)
    entry: Callable[..., Any] = scope["entry"]
    entry.__name__, entry.__qualname__ = function.__name__, function.__qualname__
    return entry


class Callee(CPUDispatcher):  # type: ignore[misc]
    """A kernel as other kernels, and its own entry, call it."""

    def __init__(
        self,
        py_func: Callable[..., Any],
        locals: Mapping[str, Any] | None = None,
        targetoptions: Mapping[str, Any] = _OPTIONS,
    ) -> None:
        options = {**targetoptions, "no_cpython_wrapper": True}
        super().__init__(py_func, dict(locals or {}), options, pipeline_class=_CalleeCompiler)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """As Numba's, with one code for all whole numbers: Numba makes one for each constant and size."""
        named = {name: _common(kind) for name, kind in dict(kws).items()}
        return super().get_call_template([_common(kind) for kind in args], named)

    def add_overload(self, cres: Any) -> None:
        """As Numba's, without its table of what Python can call. Callers find the code by its library."""
        if cres.entry_point is None:
            cres = cres._replace(entry_point=cres.library)
            self.targetctx.insert_user_function(cres.library, cres.fndesc, [cres.library])
        self.overloads[tuple(cres.signature.args)] = cres


def _common(kind: Any) -> Any:
    kind = types.unliteral(kind)
    return types.int64 if kind in (types.int8, types.int16, types.int32) else kind


class _CalleeCompiler(Compiler):  # type: ignore[misc]
    def compile_extra(self, func: Callable[..., Any]) -> Any:
        self.state.flags.no_compile = True
        self.state.library = _WrittenDown(self.state.targetctx.codegen(), func.__qualname__)
        return super().compile_extra(func)


class _WrittenDown(JITCodeLibrary):  # type: ignore[misc]
    """The code of a kernel and of all that it calls, of which no machine code is made."""

    def finalize(self) -> None:
        self._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalize_dynamic_globals()
        self._finalized = True


class EntryCacheImpl(CompileResultCacheImpl):  # type: ignore[misc]
    """What is kept of an entry: machine code alone. What Numba keeps for callers is of no use here."""

    def reduce(self, cres: Any) -> Any:
        cres.library._ensure_finalized()
        return cres.library.name, cres.library._get_compiled_object(), _kept_fields(cres)

    def rebuild(self, target_context: Any, payload: Any) -> CompileResult:
        name, code, fields = payload
        fndesc, codegen = fields["fndesc"], target_context.codegen()
        library = codegen.create_library(name)
        library.enable_object_caching()
        library._set_compiled_object(code)
        library._finalize_final_module()
        codegen._engine._defined_symbols.add(fndesc.llvm_cpython_wrapper_name)
        entry = target_context.get_executable(library, fndesc, fields["environment"])
        for environment in fields["referenced_envs"]:
            codegen.set_env(environment.env_name, environment)
        return _result(target_context, library, entry, fields)


class CalleeCacheImpl(CompileResultCacheImpl):  # type: ignore[misc]
    """What is kept of a callee, for entries that are compiled later."""

    def get_filename_base(self, fullname: str, abiflags: str) -> str:
        base: str = super().get_filename_base(f"{fullname}-callee", abiflags)
        return base

    def reduce(self, cres: Any) -> Any:
        cres.library._ensure_finalized()
        code = cres.library._get_module_for_linking().as_bitcode()
        return cres.library.name, code, _kept_fields(cres)

    def rebuild(self, target_context: Any, payload: Any) -> CompileResult:
        name, code, fields = payload
        library = _WrittenDown(target_context.codegen(), name)
        library._final_module = llvm.parse_bitcode(code)
        library._finalized = True
        return _result(target_context, library, library, fields)


def _kept_fields(cres: Any) -> dict[str, Any]:
    cres.fndesc.typemap = cres.fndesc.calltypes = None  # as Numba: of no use later, and not always picklable
    return {
        "fndesc": cres.fndesc,
        "environment": cres.environment,
        "signature": cres.signature,
        "referenced_envs": tuple(cres._find_referenced_environments()),
    }


def _result(target_context: Any, library: Any, entry_point: Any, fields: dict[str, Any]) -> CompileResult:
    return compile_result(
        typing_context=target_context.typing_context,
        target_context=target_context,
        entry_point=entry_point,
        objectmode=False,
        lifted=(),
        library=library,
        **fields,
    )
