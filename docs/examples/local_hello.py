"""First request without an API key or network: a local model in this process."""

import asyncio

from chat_core import ChatBuilder, ChatOptions, Messages
from chat_llamacpp import LlamaCppBuilder


async def main() -> None:
    async with LlamaCppBuilder().with_bundled_model().build() as model:  # leaving the block frees the weights
        # A small model rambles at higher temperatures, so use the most likely tokens and limit their number.
        options = ChatOptions(temperature=0, max_tokens=200)
        chat = ChatBuilder().with_model(model).with_options(options).build()

        messages = Messages.from_user("Name three rivers in France.")
        response = await chat.complete(messages)  # this chat cannot pause, so there is no `Paused` to handle
        print(response.text, response.usage)
        print(messages)  # the response has been appended: continue with messages.user("…")


if __name__ == "__main__":
    asyncio.run(main())
