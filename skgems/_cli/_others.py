"""Commands for everybody: what a file holds, and keys to sign with."""

import argparse
import json
from dataclasses import asdict

from ..guard import inspect
from ..messages import signing_keys


def inspect_command(args: argparse.Namespace) -> int:
    """Say in words, or as JSON, what is in a file."""
    inspected = inspect(args.file, request=args.request, verbose=args.verbose)
    if not args.json:
        print(inspected)
        return 0
    fields = asdict(inspected)
    del fields["verbose"]  # of what is printed
    print(json.dumps(fields, indent=1))
    return 0


def keys_command(args: argparse.Namespace) -> int:
    """Make a pair of keys, and say what each is for."""
    signing_keys(args.path)
    print(f"Private key: {args.path} (keep it secret: it signs what you send)")
    print(
        f"Public key: {args.path}.pub (give it to the others: it checks what you sign)"
    )
    return 0
