"""What suspends or cancels a handler must not be caught."""

import pytest

from tests.lint.kit import check_right, check_wrong, handler, module, sync_handler


def trying(clause: str, body: str = "pass", call: str = 'await ctx.step("a", f)') -> str:
    """A `try` around a call."""
    return f"try:\n    {call}\n{clause}\n    {body}\n"


SYNC_CALL = 'ctx.sleep("3d")'

WRONG = {
    "bare": handler(trying("except:  # <- swallowed")),
    "everything": handler(trying("except BaseException:  # <- swallowed", "return 1")),
    "named": handler(trying("except BaseException as error:  # <- swallowed", "print(error)")),
    "cancel": handler(trying("except asyncio.CancelledError:  # <- swallowed")),
    "among others": handler(trying("except (ValueError, BaseException):  # <- swallowed")),
    "sync, bare": sync_handler(trying("except:  # <- swallowed", call=SYNC_CALL)),
    "sync, everything": sync_handler(
        trying("except BaseException:  # <- swallowed", "return 1", SYNC_CALL)
    ),
    "gathered": handler(
        trying("except:  # <- swallowed", call='await asyncio.gather(ctx.step("a", f), g())')
    ),
    "suppressed": handler(
        'with contextlib.suppress(BaseException):  # <- swallowed\n    await ctx.step("a", f)'
    ),
    "return in finally": sync_handler(
        'try:\n    ctx.step("a", f)\nfinally:\n    return 1  # <- swallowed'
    ),
    "break in finally": handler(
        """
        for item in items:
            try:
                await ctx.step("a", f)
            finally:
                break  # <- swallowed
        """
    ),
    "a raise in an inner function": handler(
        """
        try:
            await ctx.step("a", f)
        except:  # <- swallowed
            def later():
                raise
        """
    ),
    "a helper": module(
        """
        async def pay(ctx: Context):
            await ctx.step("a", f)

        @app.job
        async def handle(ctx):
            try:
                await pay(ctx)
            except BaseException:  # <- swallowed
                pass
        """
    ),
    "after a narrower one": handler(
        """
        try:
            await ctx.step("a", f)
        except ValueError:
            raise
        except BaseException:  # <- swallowed
            pass
        """
    ),
}

RIGHT = {
    "Exception": handler(trying("except Exception:")),
    "Exception, sync": sync_handler(trying("except Exception:", call=SYNC_CALL)),
    "narrow": handler(trying("except (ValueError, KeyError):")),
    "raised again": handler(trying("except:", "raise")),
    "raised from": handler(trying("except BaseException as e:", "raise ValueError from e")),
    "raised sometimes": handler(trying("except BaseException:", "if order: raise")),
    "program ends": sync_handler(trying("except:", "os._exit(1)", SYNC_CALL)),
    "cancel is raised before": handler(
        """
        try:
            await ctx.step("a", f)
        except asyncio.CancelledError:
            raise
        except BaseException:
            pass
        """
    ),
    "no durable call in it": handler(
        'await ctx.step("a", f)\ntry:\n    await g()\nexcept BaseException:\n    pass'
    ),
    "a call in the handler": handler(
        'try:\n    g()\nexcept BaseException:\n    await ctx.step("a", f)'
    ),
    "not awaited there": handler(
        'try:\n    task = asyncio.create_task(ctx.step("a", f))\nexcept:\n    pass\nawait task'
    ),
    "in the step": handler(
        """
        def body():
            try:
                g()
            except BaseException:
                pass

        await ctx.step("a", body)
        """
    ),
    "finally": handler('try:\n    await ctx.step("a", f)\nfinally:\n    print(1)'),
    "break of a loop in finally": handler(
        """
        try:
            await ctx.step("a", f)
        finally:
            for item in items:
                break
        """
    ),
    "suppress Exception": handler(
        'with contextlib.suppress(Exception):\n    await ctx.step("a", f)'
    ),
    "an own BaseException": handler("BaseException = Mine\n" + trying("except BaseException:")),
    "cancel in a thread": sync_handler(trying("except asyncio.CancelledError:", call=SYNC_CALL)),
}


@pytest.mark.parametrize("name", WRONG)
def test_is_found(name: str) -> None:
    check_wrong(WRONG[name])


@pytest.mark.parametrize("name", RIGHT)
def test_is_not_found(name: str) -> None:
    check_right(RIGHT[name])
