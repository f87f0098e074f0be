# A group of click with a progress bar.
import click


@click.group()
@click.option("--verbose/--quiet", default=False)
def main(verbose):
    if verbose:
        click.secho("verbose", fg="green")


@main.command()
@click.option("--epochs", default=1, show_default=True)
@click.option("--out", type=click.Path(dir_okay=False, writable=True), default="model.bin")
def fit(epochs, out):
    with click.progressbar(range(epochs), label="Epochs") as bar:
        for _ in bar:
            pass
    with open(out, "wb") as file:
        file.write(b"weights")
    click.echo(f"trained {epochs} epochs")


if __name__ == "__main__":
    main()
