"""Hello, with no key and no network: a local model in this process."""

import asyncio

from chat_core import ChatBuilder, ChatOptions, Messages
from chat_llamacpp import LlamaCppBuilder


async def main() -> None:
    async with LlamaCppBuilder().with_bundled_model().build() as model:  # leaving the block frees the weights
        # A model this small rambles where it may choose its words: it takes the likeliest, and not too many.
        options = ChatOptions(temperature=0, max_tokens=200)
        chat = ChatBuilder().with_model(model).with_options(options).build()

        messages = Messages.from_user("Name three rivers in France.")
        response = await chat.complete(messages)  # this chat cannot pause, so there is no `Paused` to handle
        print(response.text, response.usage)
        print(messages)  # the answer has been pushed: ask on with messages.user("…")


if __name__ == "__main__":
    asyncio.run(main())
