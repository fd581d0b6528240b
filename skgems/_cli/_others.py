"""Commands for everybody: what a file holds, and keys to sign with."""

import argparse
import json
from dataclasses import asdict

from ..channels import inspect
from ..messages import signing_keys


def inspect_command(args: argparse.Namespace) -> int:
    """Say in words, or as JSON, what is in a file."""
    inspected = inspect(args.file, request=args.request)
    print(json.dumps(asdict(inspected), indent=1) if args.json else inspected)
    return 0


def keys_command(args: argparse.Namespace) -> int:
    """Make a pair of keys, and say what each is for."""
    signing_keys(args.path)
    print(f"Private key: {args.path} (keep it; it signs what you send)")
    print(f"Public key: {args.path}.pub (others know you by it)")
    return 0
