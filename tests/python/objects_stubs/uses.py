"""Uses of the types for mypy: correct ones, and wrong ones that it must report."""

import objects_stubs as objects

line = objects.Line(objects.Point(1, y=2), end=objects.Point(3, 4))
length: int = line.end.x - line.start.x
objects.Line(objects.Point(1, 2), 3)  # type: ignore[arg-type]
objects.Point(1, "two")  # type: ignore[arg-type]
objects.Point(1)  # type: ignore[call-arg]
line.middle  # type: ignore[attr-defined]

dog = objects.Dog(4, "Rex", None, 1.0)
legs: int = dog.legs
animal: objects.Animal = dog
pet: objects.Pet = animal  # type: ignore[assignment]

defaults = objects.Defaults(1, items=[1, 2], keyword=True)
objects.Defaults(1)  # type: ignore[call-arg]

text: str = objects.Counter("visits", hits=3).state
hits: int = objects.Counter("visits").hit()
maybe: str = dog.breed  # type: ignore[assignment]

total: int = objects.Account.common().together(objects.Account.common(), 0)
area: float = objects.Group("all", [objects.Circle(2.0)]).area()
shapes = objects.Group("all", [objects.Point(1, 2)])  # type: ignore[list-item]
hue: objects.Hue = objects.next_hue(objects.Hue.Red)
objects.next_hue("red")  # type: ignore[arg-type]
