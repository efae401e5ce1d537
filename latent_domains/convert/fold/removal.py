"""Removes layers that do nothing in a net for tests."""

from latent_domains.models.graph import Graph


def remove_idle(graph: Graph) -> None:
    """Remove Dropout, Split and Silence."""
    for node in list(graph.nodes):
        if node.type == "Silence":
            graph.nodes.remove(node)
        elif node.type in ("Dropout", "Split") and not node.trains:
            value = node.bottoms[0]
            if len(node.tops) == 1 and graph.only_reader(value) is node:
                graph.absorb(node)
            elif not graph.outputs & set(node.tops):
                for reader in graph.nodes:
                    reader.bottoms = [value if bottom in node.tops else bottom for bottom in reader.bottoms]
                graph.nodes.remove(node)
