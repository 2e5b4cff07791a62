"""Hello, with no key and no network: a local model in this process."""

import asyncio

from chat_core import ChatBuilder, Messages
from chat_llamacpp import LlamaCppBuilder


async def main() -> None:
    async with LlamaCppBuilder().with_bundled_model().build() as model:  # leaving the block frees the weights
        chat = ChatBuilder().with_model(model).build()

        messages = Messages.from_user("Name three rivers in France.")
        response = await chat.complete(messages)  # this chat cannot pause, so there is no `Paused` to handle
        print(response.text, response.usage)
        print(messages)  # the answer has been pushed: ask on with messages.user("…")


if __name__ == "__main__":
    asyncio.run(main())
