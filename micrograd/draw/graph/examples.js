// The examples: a stack shows one at a time, in the place of the first.

const stacks = graph.stacks.map(members => {
  const places = new Map(members[0].map((i, k) => [i, k])),
    examples = new Map();
  members.forEach((member, j) =>
    member.forEach((i, k) => {
      if (!examples.has(i)) examples.set(i, [j, k]);
    }),
  );
  return { members, places, examples, chosen: 0 };
});

const innermostFirst = [...stacks].reverse();

// The Value that the chosen examples have in the place of Value i of the first ones.
function shown(i) {
  for (const { members, places, chosen } of innermostFirst) i = members[chosen][places.get(i)] ?? i;
  return i;
}

// The first example's Value in the place of Value i of any example; `choose` shows the example that i belongs to.
function standIn(i, choose) {
  for (const stack of stacks) {
    const found = stack.examples.get(i);
    if (!found) continue;
    if (choose && !stack.members[stack.chosen].includes(i)) stack.chosen = found[0];
    i = stack.members[0][found[1]];
  }
  return i;
}

// Value i if it belongs to the chosen examples, or else their Value in its place.
function counterpart(i) {
  let place = i;
  for (const { members, examples, chosen } of stacks) {
    if (!examples.has(place)) continue;
    if (!members[chosen].includes(place)) return shown(standIn(i, false));
    place = members[0][examples.get(place)[1]];
  }
  return i;
}
