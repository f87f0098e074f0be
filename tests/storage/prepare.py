"""Set up moto's server with Amazon's own client, on the machine where it runs; its address is in MOTO.

usage: prepare.py make BUCKET                    create a bucket and a user with all rights; prints KEY SECRET
       prepare.py list BUCKET PREFIX KEY SECRET  print the keys with that prefix
After `make`, the server requires a signature on every request (moto's INITIAL_NO_AUTH_ACTION_COUNT is the number of
requests before that).
"""

from __future__ import annotations

import json
import os
import sys

FREE_ACTIONS = 4


def client(service: str, key: str = "anybody", secret: str = "anybody"):  # type: ignore[no-untyped-def]
    import boto3

    who = {"aws_access_key_id": key, "aws_secret_access_key": secret, "region_name": "us-east-1"}
    return boto3.client(service, endpoint_url=os.environ["MOTO"], **who)


def make(bucket: str) -> None:
    client("s3").create_bucket(Bucket=bucket)
    iam = client("iam")
    iam.create_user(UserName="test")
    everything = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
    iam.put_user_policy(UserName="test", PolicyName="everything", PolicyDocument=json.dumps(everything))
    made = iam.create_access_key(UserName="test")["AccessKey"]
    print(made["AccessKeyId"], made["SecretAccessKey"])


def list_keys(bucket: str, prefix: str, key: str, secret: str) -> None:
    pages = client("s3", key, secret).get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    for page in pages:
        for found in page.get("Contents", ()):
            print(found["Key"].removeprefix(prefix))


if __name__ == "__main__":
    {"make": make, "list": list_keys}[sys.argv[1]](*sys.argv[2:])
