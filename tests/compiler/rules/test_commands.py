"""Launchers and secrets in the words after --: which commands the rules report, and which they must not."""

from __future__ import annotations

import pytest

from ..diagnosed import found, in_shell

RUN = "torchrun --nproc-per-node=4 train.py"


@pytest.mark.parametrize(
    ("command", "launcher"),
    [
        (RUN.split(), "torchrun"),
        (["/opt/env/bin/torchrun", "train.py"], "torchrun"),
        (["-m", "torch.distributed.run", "train.py"], "torch.distributed.run"),
        (["python3", "-u", "-X", "faulthandler", "-m", "torch.distributed.run", "a.py"], "torch.distributed.run"),
        (["env", "-u", "Y", "X=1", *RUN.split()], "torchrun"),
        (["nohup", "--", "nice", "-n", "5", *RUN.split()], "torchrun"),
        (["env", "X=1", *in_shell(RUN)], "torchrun"),
        (in_shell(f"cd /x && {RUN}"), "torchrun"),
        (in_shell(f"OMP_NUM_THREADS=1 X='a b' {RUN}"), "torchrun"),
        (in_shell(f"nohup {RUN} >log 2>&1"), "torchrun"),
        (in_shell(f"timeout -k 10 2h \\\n  {RUN}"), "torchrun"),
        (in_shell(f"for i in 1 2; do time {RUN}; done"), "torchrun"),
        (in_shell(f"if [[ -e x ]]; then numactl -N 0 {RUN}; fi"), "torchrun"),
        (in_shell("python -m torch.distributed.run --nproc-per-node=4 train.py"), "torch.distributed.run"),
        (in_shell("exec python3 -m accelerate.commands.launch train.py"), "accelerate.commands.launch"),
        (["accelerate", "launch", "train.py"], "accelerate"),
        (
            ["python", "-m", "accelerate.commands.accelerate_cli", "launch", "t.py"],
            "accelerate.commands.accelerate_cli",
        ),
        (["python", "-Wignore", "-um", "torch.distributed.launch", "t.py"], "torch.distributed.launch"),
        (["composer", "train.py"], "composer"),
        (["python", "-m", "composer.cli", "-n", "4", "train.py"], "composer.cli"),
        (["uv", "run", *RUN.split()], "torchrun"),
        (["uv", "--quiet", "run", "--no-sync", "--python", "3.12", "--with=rich", *RUN.split()], "torchrun"),
        (["uv", "run", "--frozen", "-m", "torch.distributed.run", "t.py"], "torch.distributed.run"),
        (["poetry", "run", *RUN.split()], "torchrun"),
        (["pixi", "run", "-e", "cuda", *RUN.split()], "torchrun"),
        (["micromamba", "run", "-n", "env", *RUN.split()], "torchrun"),
        (["conda", "run", "--no-capture-output", "-n", "env", *RUN.split()], "torchrun"),
        (["mamba", "run", "--prefix", "/opt/env", "--", *RUN.split()], "torchrun"),
        (["nsys", "profile", "-o", "x", "-f", "true", "--trace=cuda,nvtx", *RUN.split()], "torchrun"),
        (["ncu", "-o", "x", "--set", "full", "--target-processes", "all", *RUN.split()], "torchrun"),
        (["uv", "run", *in_shell(f"cd /x; {RUN}")], "torchrun"),
        (in_shell(f"uv run --no-sync {RUN} | tee log"), "torchrun"),
        (in_shell(f"module load cuda && bash -c '{RUN}'"), "torchrun"),
        (in_shell(f"MASTER_ADDR=$(hostname) {RUN}"), "torchrun"),
        (in_shell(f"main() {{ {RUN}; }}; main"), "torchrun"),
        (in_shell(f"case $1 in a | b) ls ;; c) {RUN} ;; esac"), "torchrun"),
        (in_shell(f"# don't stop\n{RUN}"), "torchrun"),
        (["axolotl", "train", "config.yml"], "axolotl"),
        (["llamafactory-cli", "train", "x.yaml"], "llamafactory-cli"),
        (["tune", "run", "--nproc_per_node", "8", "full_finetune_distributed"], "tune"),
        (["fabric", "run", "--devices=8", "train.py"], "fabric"),
        (["lightning", "run", "model", "--devices", "8", "train.py"], "lightning"),
        (in_shell(f"cat > c.yaml <<EOF\nlr: 1 # don't\nEOF\n{RUN}"), "torchrun"),
        (in_shell(f"cat <<<EOF\n{RUN}\nEOF"), "torchrun"),
        (in_shell(f"# <<EOF\necho '<<EOF' $((1<<n))\n{RUN}\nEOF"), "torchrun"),
        (["env", "-S", RUN], "torchrun"),
        (["env", "-i", f"-vSX=1 {RUN}"], "torchrun"),
        (["env", f"--split-string=-u Y {RUN}", "--lr", "1"], "torchrun"),
        (["env", "-S", f"bash -c 'cd /x; {RUN}'"], "torchrun"),
        (["xvfb-run", "-a", "-s", "-screen 0 640x480x24", *RUN.split()], "torchrun"),
        (["tini", "-s", "--", "gosu", "user", *RUN.split()], "torchrun"),
        (["dumb-init", *RUN.split()], "torchrun"),
        (["flock", "-w", "9", "/tmp/lock", *RUN.split()], "torchrun"),
        (["pipenv", "run", *RUN.split()], "torchrun"),
        (["pdm", "run", *RUN.split()], "torchrun"),
        (in_shell("$(which torchrun) train.py"), "torchrun"),
        (in_shell('"$(command -v torchrun)" train.py'), "torchrun"),
        (in_shell("X=1 `which torchrun` train.py"), "torchrun"),
        (in_shell("python -u $(which torchrun) train.py"), "torchrun"),
        (in_shell('"$(which python)" -m torch.distributed.run train.py'), "torch.distributed.run"),
        (["python", "/opt/env/bin/torchrun", "train.py"], "torchrun"),
    ],
)
def test_a_launcher_is_seen_behind_what_starts_it(command: list[str], launcher: str) -> None:
    assert [each.title.split()[0] for each in found("JC3001", *command, words=("procs=4",))] == [launcher]


@pytest.mark.parametrize(
    "command",
    [
        ["python", "train.py", "-m", "torch.distributed.run"],
        ["env", "X=torchrun", "python", "train.py"],
        ["env", "-u", "torchrun", "python", "train.py"],
        in_shell("echo torchrun train.py"),
        in_shell("echo '; torchrun train.py'; python train.py"),
        in_shell("timeout torchrun python train.py"),
        in_shell("LAUNCHER=torchrun python train.py"),
        in_shell("which torchrun && python train.py"),
        in_shell("python -m mypackage --module -m torch.distributed.run"),
        in_shell("accelerate env; python train.py"),
        in_shell("accelerate config default && python train.py"),
        in_shell("python -m accelerate.commands.accelerate_cli env; python train.py"),
        in_shell("# torchrun\npython train.py  # not by torchrun; torchrun is there for the nodes"),
        in_shell("echo ';' torchrun \\; torchrun"),
        ["axolotl", "train", "config.yml", "--launcher", "python"],
        ["axolotl", "preprocess", "config.yml"],
        ["llamafactory-cli", "export", "x.yaml"],
        ["tune", "run", "lora_finetune_single_device", "--config", "x"],
        ["fabric", "consolidate", "x"],
        in_shell("cat > c.yaml <<EOF\ntorchrun x\nEOF\nexec python train.py"),
        in_shell("cat > a <<'E F' <<-B; python train.py\ndon't; torchrun x\nE F\n\ttorchrun y\n\tB\nls"),
        in_shell("x=$(cat <<EOF\n)torchrun\ntorchrun x\nEOF\n); python train.py"),
        ["uv", "run", "--with", "torchrun", "train.py"],
        ["uv", "pip", "install", "torchrun"],
        ["env", "-S", "X=torchrun python train.py", "torchrun"],
        ["env", "-S", "torchrun 'unclosed"],
        ["xvfb-run", "-e", "torchrun", "python", "train.py"],
        ["gosu", "torchrun", "python", "train.py"],
        in_shell("echo $(which torchrun); python train.py"),
        in_shell("python train.py --with $(which torchrun)"),
        ["python", "-m", "composer.train", "--x", "composer"],
        ["conda", "run", "-n", "torchrun", "python", "train.py"],
        ["nsys", "profile", "-o", "torchrun", "python", "train.py"],
    ],
)
def test_the_name_of_a_launcher_elsewhere_is_none(command: list[str]) -> None:
    assert found("JC3001", *command, words=("procs=4",)) == []


NODES = ("backend=slurm", "time=2h", "nodes=2")
HEAD = "--master_addr=$MASTER_ADDR"


@pytest.mark.parametrize(
    ("words", "command", "hint"),
    [
        (("procs=1", "gpus=8"), RUN.split(), "procs=8 -- train.py, because jobc starts the ranks"),
        (("gpus=1",), RUN.split(), "-- train.py, because jobc starts the ranks"),
        ((), RUN.split(), "-- train.py, because jobc starts the ranks"),
        (("procs=4",), RUN.split(), "-- train.py, because jobc starts the ranks"),
        (("procs=4",), ["mpirun", "train.py"], "-- train.py, because jobc starts the ranks"),
        ((), ["accelerate", "launch", "--num_processes=8", "train.py"], "-- train.py, because jobc starts the ranks"),
        ((), ["deepspeed", "--num_gpus", "8", "train.py", "-x"], "-- train.py -x, because jobc starts the ranks"),
        ((), ["torchrun", "--nnodes=2", "train.py"], "-- train.py, because jobc starts the ranks"),
        ((), ["torchrun", *HEAD.split(), "train.py"], "-- train.py, because jobc starts the ranks"),
        ((), in_shell(f"cd x; {RUN}"), "in the command, remove torchrun and its options: jobc starts the ranks"),
        ((), in_shell("torchrun --nproc-per-node $N train.py $ARGS"), "in the command, remove torchrun and its"),
    ],
)
def test_a_launcher_that_knows_one_node_of_several_is_told(
    words: tuple[str, ...], command: list[str], hint: str
) -> None:
    (told,) = found("JC3001", *command, words=(*NODES, *words))
    assert told.hint and told.hint.startswith(hint) and "procs=1" not in told.hint
    assert command[0] == "bash" or not found("JC3001", *command[-1:], words=(*NODES, *words, "procs=8", "gpus=8"))


@pytest.mark.parametrize(
    "command",
    [
        in_shell(f"torchrun --nnodes 2 --node_rank $GROUP_RANK {HEAD} train.py"),
        in_shell("torchrun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=$MASTER_ADDR:29511 train.py"),
        in_shell(f"python -m torch.distributed.run --nnodes=2 --rdzv_endpoint=$HEAD:1 -m train {HEAD}"),
        in_shell(f"accelerate launch --num_machines 2 --main_process_ip=$MASTER_ADDR train.py {HEAD}"),
        ["accelerate", "launch", "--config_file", "two_nodes.yaml", "train.py"],
        ["deepspeed", "--hostfile", "hosts", "train.py"],
        ["deepspeed", "--num_nodes=2", "train.py"],
        in_shell('torchrun "${DISTRIBUTED_ARGS[@]}" train.py'),
        in_shell("torchrun --nproc-per-node $N $ARGS train.py"),
        in_shell(f"export PET_NNODES=2 PET_MASTER_ADDR=$MASTER_ADDR; {RUN}"),
        ["composer", "-n", "8", "train.py"],  # reads WORLD_SIZE and MASTER_ADDR
        in_shell("mpirun -np 8 python train.py"),
        ["accelerate", "env"],
    ],
)
def test_one_that_may_know_the_others_is_not(command: list[str]) -> None:
    assert found("JC3001", *command, words=NODES) == []


def test_on_one_node_a_launcher_may_start_the_ranks() -> None:
    (told,) = found("JC3001", *RUN.split(), words=("procs=4",))
    assert (
        told.hint
        == "-- train.py, because jobc starts the ranks; or procs=1, so that torchrun starts the ranks of the node"
    )
    assert found("JC3001", *RUN.split(), words=("procs=1",)) == []


HEX = "0123456789abcdef0123456789abcdef01234567"
AWS = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"


@pytest.mark.parametrize(
    ("command", "what"),
    [
        (in_shell(f"WANDB_API_KEY={HEX} python train.py"), "a value for WANDB_API_KEY"),
        (in_shell(f"export AWS_SECRET_ACCESS_KEY='{AWS}'; python train.py"), "a value for AWS_SECRET_ACCESS_KEY"),
        (("env", f"WANDB_API_KEY={HEX}", "python", "train.py"), "a value for WANDB_API_KEY"),
        (in_shell("curl -H 'Authorization: Bearer hf_abcdefghijklmnopqrstuv'"), "what looks like a token"),
        (in_shell(f"curl -H 'Authorization: Bearer {HEX}' x; python train.py"), "what looks like a token"),
        (in_shell(f'curl -H "Authorization: Bearer {JWT}" x; python train.py'), "what looks like a token"),
        (in_shell("curl -H 'authorization: Basic dXNlcjpwYXNz' x"), "what looks like a token"),
        (("train.py", "--header", f"Authorization: Bearer {HEX}"), "what looks like a token"),
        (("train.py", "--header", f"X-API-Key: {HEX}"), "what looks like a token"),
        (("train.py", f"--headers=PRIVATE-TOKEN:{HEX}"), "a value for headers"),
        (("train.py", "--session", JWT), "what looks like a token"),
        (in_shell("python train.py --lr 0.1 --api-key 'abc'"), "a value for --api-key"),
        (("train.py", "--wandb-key", HEX), "a value for --wandb-key"),
        (("train.py", f"--storage_secret={AWS}52"), "a value for --storage_secret"),
        (("train.py", "--hf_token", "abc123"), "a value for --hf_token"),
        (("train.py", "--db-password=hunter2"), "a value for --db-password"),
        (("train.py", f"--auth_token={AWS}"), "a value for --auth_token"),
        (("train.py", "--use_auth_token", "hf_abcdefghijklmnopqrstuv"), "what looks like a token"),
        (("train.py", "--api_key", "nonesuch"), "a value for --api_key"),
        (in_shell("OPENAI_API_KEY=abc123 python train.py"), "a value for OPENAI_API_KEY"),
        (("train.py", f"logger.api_key={HEX}"), "a value for logger.api_key"),
        (("train.py", f"trainer.logger.api_key='{HEX}'"), "a value for trainer.logger.api_key"),
        (("train.py", f"++logger.wandb.api_key={HEX}"), "a value for logger.wandb.api_key"),
        (("train.py", f"wandb_api_key={HEX}"), "a value for wandb_api_key"),
        (("train.py", f"+api_key={HEX}"), "a value for api_key"),
        (("train.py", f"wandb.key={HEX}"), "a value for wandb.key"),
        (("train.py", "--wandb.api-key", HEX), "a value for --wandb.api-key"),
        (("train.py", "--aws_secret_access_key", AWS.replace("/", "")), "a value for --aws_secret_access_key"),
        (in_shell(f"exec python train.py logger.api_key={HEX}; true"), "a value for api_key"),
        (in_shell("exec python train.py logger.api_key=abc; true"), "a value for logger.api_key"),
        (in_shell(f"wandb login {HEX} && python train.py"), "a value for WANDB_API_KEY"),
        (in_shell(f"wandb login --relogin --host=https://w '{HEX}'; python t.py"), "a value for WANDB_API_KEY"),
        (in_shell(f"export WANDB_KEY={HEX}; python train.py"), "a value for WANDB_KEY"),
        (in_shell("HF_TOKEN=None WANDB_API_KEY=abc123 python train.py"), "a value for WANDB_API_KEY"),
    ],
)
def test_a_secret_in_a_command_is_named_and_not_repeated(command: tuple[str, ...], what: str) -> None:
    (told,) = found("JC3003", *command)
    assert told.title == f"the command contains {what}" and not any(each in f"{told}" for each in (HEX, AWS, JWT))


@pytest.mark.parametrize(
    "command",
    [
        in_shell("WANDB_API_KEY=$KEY python train.py"),
        in_shell('export HF_TOKEN="$(cat ~/.token)"; python train.py'),
        in_shell("WANDB_API_KEY=; WANDB_MODE=offline python train.py"),
        in_shell('curl -H "Authorization: Bearer $TOKEN" -H "X-Api-Key: ${WANDB_API_KEY_2026}" x; python train.py'),
        in_shell('curl -H "Authorization: Bearer $(cat ~/.token)" -H "Authorization: Basic `cat ~/.basic`" x'),
        ("train.py", "--header", "Authorization: Bearer EMPTY", "--header", "Authorization: Bearer sk-no-key-required"),
        ("train.py", "--header", "Authorization: Bearer <your token 1>", "--caption", "a bearer of good news in 2026"),
        in_shell('python train.py --api-key "$KEY" --password ${PASSWORD} --hf-token="$(cat ~/.token)"'),
        in_shell(f"GIT_COMMIT={HEX} python train.py"),
        ("train.py", "--pad-token", "<|endoftext|>", "--eos_token=151643", "--sort-key=num_tokens_per_sample_2048"),
        ("train.py", "--cache-key", HEX, "--ssh-key", "/home/me/.ssh/id_ed25519", "--commit", HEX),
        ("train.py", "--use_auth_token", "True"),
        ("train.py", "--use-auth-token=true"),
        ("train.py", "--hf_token", "None"),
        ("train.py", "--hf-token=null", "--auth_token", "no"),
        ("train.py", "--api_key", "EMPTY"),
        ("train.py", "--api-key=sk-no-key-required", "--api_key", "dummy", "--api_key=N/A"),
        ("train.py", "--no-auth-token", "x.txt"),
        ("train.py", "--no_password", "out", "--ask-password", "once", "--reset-password", "x"),
        ("train.py", "--hf-token", "/run/secrets/hf", "--password=~/.password", "--api-key", "@./key"),
        ("train.py", "--hf_token", "env:HF_TOKEN", "--hf_token=<your token>", "--password", "********"),
        ("train.py", "--password-file", "x", "--api-key-name", "MY_KEY", "--hf_token"),
        in_shell("python train.py --hf_token None; python eval.py --use_auth_token True"),
        in_shell("OPENAI_API_KEY=EMPTY HF_TOKEN=none python train.py"),
        ("env", "OPENAI_API_KEY=dummy", "python", "train.py"),
        ("train.py", "tokenizer=gpt2", "max_tokens=4096", "key=value", "api_key_file=/x", "--monkey", "banana"),
        ("train.py", "logger.api_key=${oc.env:WANDB_API_KEY}", "+api_key=null", "db.password=???", "data.key=label"),
        ("train.py", "model.use_auth_token=my", f"data.cache_key={HEX}", f"revision={HEX}", "tokens.pad_token=<pad>"),
        ("train.py", "--logger.api-key", "$KEY", "--trainer.api_key=/run/key", "~logger.api_key"),
        in_shell('wandb login "$WANDB_API_KEY" && python train.py'),
        in_shell("wandb login --host https://wandb.example-with-a-long-name.org/123 && python train.py"),
        in_shell("wandb login; python train.py --commit 0123456789abcdef0123456789abcdef01234567"),
        in_shell(
            "python -c 'connect(password=ask(), api_key=args.key, host=h, token=args.token)'; exec python train.py"
        ),
        in_shell("api_key=$(cat key) password=none; exec python train.py"),
        ("train.py", "--max-token", "1" * 40, "--label_key", "AverageMonthlyTemperaturesOfAllStations"),
    ],
)
def test_what_only_looks_like_a_secret_in_a_command_is_none(command: tuple[str, ...]) -> None:
    assert found("JC3003", *command) == []
