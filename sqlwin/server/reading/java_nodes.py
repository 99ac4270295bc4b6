"""Many nodes of Spark's trees at once: a call to Java for a list of nodes, not for each node.

Uses private APIs, checked with Spark 4.3: `SparkSession._jvm`, names of methods of Spark's trees.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FUNCTION = "java.util.function.Function"
_OBJECT = "java.lang.Object"


class JavaNodes:
    """Methods of Java classes as functions of Scala, which Scala's lists apply to their items.

    Args:
        spark: Spark session.

    Attributes:
        jvm: Spark's process.
    """

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark._jvm
        self.jvm = jvm
        self._invoke = jvm.java.lang.invoke
        self._lookup = self._invoke.MethodHandles.publicLookup()
        self._loader = spark._jsparkSession.getClass().getClassLoader()
        of_class = self.method("java.lang.Class", "getName")
        self._class_name = self.method(_OBJECT, "getClass").andThen(of_class)

    def method(self, of: str, name: str) -> Any:
        """Return the method without arguments of a class as a function of its instances."""
        return self._function(self._handle(of, name))

    def method_of(self, instance: Any, name: str, argument: str) -> Any:
        """Return a method of an object as a function of its argument, a class."""
        handle = self._handle(instance.getClass().getName(), name, argument)
        return self._function(handle.bindTo(instance))

    def is_instance(self, of: str) -> Any:
        """Return the function that tells whether an object is an instance of a class."""
        handle = self._handle("java.lang.Class", "isInstance", _OBJECT)
        return self._function(handle.bindTo(self._class(of)))

    def class_names(self, nodes: Any) -> list[str]:
        """Return the names of the classes of nodes."""
        return self.text_of(nodes, self._class_name)

    def text_of(self, nodes: Any, function: Any) -> list[str]:
        """Return a text without line breaks for each node."""
        return str(nodes.map(function).mkString("\n")).split("\n") if nodes.nonEmpty() else []

    def list_of(self, node: Any) -> Any:
        """Return a list of Scala with one node."""
        return self.jvm.scala.Option.apply(node).toList()

    def _handle(self, of: str, name: str, *arguments: str) -> Any:
        on = self._class(of)
        types = [self._class(argument) for argument in arguments]
        returned = on.getMethod(name, self._array(types)).getReturnType()
        kind = self._invoke.MethodType.methodType(returned, self._array(types))
        return self._lookup.findVirtual(on, name, kind)

    def _array(self, types: Sequence[Any]) -> Any:
        java_class = self.jvm.java.lang.Class
        array = self.jvm.java.lang.reflect.Array.newInstance(
            java_class.forName("java.lang.Class"), len(types)
        )
        for place, each in enumerate(types):
            array[place] = each
        return array

    def _class(self, name: str) -> Any:
        return self._loader.loadClass(name)

    def _function(self, handle: Any) -> Any:
        to_scala = self.jvm.scala.jdk.javaapi.FunctionConverters
        proxies = self._invoke.MethodHandleProxies
        return to_scala.asScalaFromFunction(
            proxies.asInterfaceInstance(self._class(_FUNCTION), handle)
        )
