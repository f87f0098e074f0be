"""Train with ignite; its launcher takes the ranks that are there."""

import ignite.distributed as idist
import torch
from ignite.engine import Engine, Events


def training(local_rank, config):
    model = idist.auto_model(torch.nn.Linear(4, 1))
    optimizer = idist.auto_optim(torch.optim.SGD(model.parameters(), lr=config["lr"]))

    def step(engine, batch):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(batch), batch.sum(1, keepdim=True))
        loss.backward()
        optimizer.step()
        return loss.item()

    trainer = Engine(step)

    @trainer.on(Events.EPOCH_COMPLETED)
    def report():
        if idist.get_rank() == 0:
            print(f"Epoch {trainer.state.epoch}: loss of {idist.get_world_size()} ranks {trainer.state.output:.2f}")
            torch.save(model.state_dict(), "ignite.pt")

    trainer.run([torch.randn(8, 4) for _ in range(4)], max_epochs=2)


if __name__ == "__main__":
    with idist.Parallel(backend="gloo") as parallel:
        parallel.run(training, {"lr": 0.1})
