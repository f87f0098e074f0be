# A bar and a table of rich.
from rich.console import Console
from rich.progress import track
from rich.table import Table

console = Console()
for _ in track(range(20), description="Training..."):
    pass
table = Table(title="results")
table.add_column("metric")
table.add_column("value")
table.add_row("accuracy", "0.91 ✓")
console.print(table)
