/* SPDX-License-Identifier: Apache-2.0 */
/**
 * salloc for C++17: profiles, recordings and hooks as objects that free what they hold, and options
 * as strings. A header only; the functions are those of salloc.h and profile.h, which say what they
 * do and which threads may call them.
 *
 * A function that fails throws std::system_error with the errno of the function of C. A callback
 * may throw: the iteration ends, and the exception continues from the call of for_each. With
 * libstdc++, a callback may also end its thread (pthread_exit), or be cancelled.
 */
#ifndef SALLOC_SALLOC_HPP
#define SALLOC_SALLOC_HPP

#include <salloc/salloc.h>

#include <cerrno>
#include <chrono>
#include <exception>
#include <functional>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

#ifdef __GLIBCXX__
#include <cxxabi.h>
#endif

namespace salloc
{

using event = salloc_sample_event;
using sample = salloc_profile_sample;

namespace detail
{

[[noreturn]] inline void fail(const char *what)
{
    throw std::system_error(errno, std::generic_category(), what);
}

inline void check(bool fine, const char *what)
{
    if (!fine)
        fail(what);
}

/* A callable in the form of a function of C. It may return nothing, or true to go on. */
template <class T, class F> struct callback {
    F &function;
    std::exception_ptr thrown;

    static int call(const T *item, void *arg)
    {
        auto *self = static_cast<callback *>(arg);

        try {
            if constexpr (std::is_void_v<std::invoke_result_t<F &, const T &>>)
                std::invoke(self->function, *item);
            else
                return std::invoke(self->function, *item) ? 0 : 1;
#ifdef __GLIBCXX__
        } catch (abi::__forced_unwind &) { /* the end of the thread goes on */
            throw;
#endif
        } catch (...) {
            self->thrown = std::current_exception();
            return 1;
        }
        return 0;
    }
};

} // namespace detail

/** The version of the running library. */
inline std::string version()
{
    return salloc_version();
}

/** Returns the value of an option of SALLOC_CONF, as text. */
inline std::string get_option(const std::string &name)
{
    std::string value(64, '\0');

    while (salloc_get_option(name.c_str(), value.data(), value.size()) != 0) {
        detail::check(errno == ERANGE, "salloc_get_option");
        value.resize(2 * value.size());
    }
    value.resize(value.find('\0'));
    return value;
}

/** Sets an option that can change at run time. */
inline void set_option(const std::string &name, const std::string &value)
{
    detail::check(salloc_set_option(name.c_str(), value.c_str()) == 0, "salloc_set_option");
}

/** A profile. Move-only. An object from which was moved holds none, and may only be assigned to or
 * destroyed. */
class profile
{
  public:
    /** Takes over a profile of the functions of C. */
    explicit profile(salloc_profile *held) noexcept : held_(held)
    {
    }
    profile(profile &&other) noexcept : held_(other.release())
    {
    }
    profile &operator=(profile &&other) noexcept
    {
        if (this != &other)
            salloc_profile_free(std::exchange(held_, other.release()));
        return *this;
    }
    profile(const profile &) = delete;
    profile &operator=(const profile &) = delete;
    ~profile()
    {
        salloc_profile_free(held_);
    }

    /** Makes a profile of the present state. */
    static profile snapshot(salloc_profile_type type = SALLOC_PROFILE_HEAP)
    {
        salloc_profile *made = salloc_snapshot_profile(type);

        detail::check(made != nullptr, "salloc_snapshot_profile");
        return profile(made);
    }

    /** The profile, which stays this object's. */
    const salloc_profile *get() const noexcept
    {
        return held_;
    }
    /** The profile, which is the caller's from then on. */
    salloc_profile *release() noexcept
    {
        return std::exchange(held_, nullptr);
    }

    salloc_profile_info info() const
    {
        salloc_profile_info info = {};

        info.size = sizeof(info);
        detail::check(salloc_profile_get_info(held_, &info) == 0, "salloc_profile_get_info");
        return info;
    }
    salloc_profile_type type() const
    {
        return info().type;
    }
    std::chrono::system_clock::time_point time() const
    {
        return std::chrono::system_clock::time_point(
            std::chrono::duration_cast<std::chrono::system_clock::duration>(
                std::chrono::nanoseconds(info().time_ns)));
    }
    std::chrono::nanoseconds duration() const
    {
        return std::chrono::nanoseconds(info().duration_ns);
    }

    /** Estimates blocks and bytes of the whole profile. */
    salloc_estimate estimate(double level = 0.95,
                             salloc_estimator estimator = SALLOC_ESTIMATE_WEIGHTED) const
    {
        salloc_estimate estimate;

        detail::check(salloc_profile_estimate(held_, nullptr, 0, estimator, level, &estimate) == 0,
                      "salloc_profile_estimate");
        return estimate;
    }

    /** Call a function with each bucket, each single sample, or each event of an EVENTS profile,
     * until it returns false. It may also return nothing. */
    template <class F> void for_each(F &&function) const
    {
        iterate<sample>(salloc_profile_iterate, function);
    }
    template <class F> void for_each_sample(F &&function) const
    {
        iterate<sample>(salloc_profile_iterate_samples, function);
    }
    template <class F> void for_each_event(F &&function) const
    {
        iterate<event>(salloc_profile_iterate_events, function);
    }

    /** Write a file; to a descriptor; into a string, in the format with this ending. */
    void write(const std::string &path) const
    {
        detail::check(salloc_profile_write_file(held_, path.c_str()) == 0,
                      "salloc_profile_write_file");
    }
    void write(int fd, const std::string &format) const
    {
        detail::check(salloc_profile_write_fd(held_, fd, format.c_str()) == 0,
                      "salloc_profile_write_fd");
    }
    std::string text(const std::string &format) const
    {
        std::string text;
        auto append = [](void *arg, const void *data, size_t size) {
            try {
                static_cast<std::string *>(arg)->append(static_cast<const char *>(data), size);
            } catch (const std::exception &) {
                return ENOMEM;
            }
            return 0;
        };

        detail::check(salloc_profile_write(held_, format.c_str(), append, &text) == 0,
                      "salloc_profile_write");
        return text;
    }

  private:
    template <class T, class C, class F> void iterate(C function_of_c, F &function) const
    {
        detail::callback<T, F> c{function, nullptr};
        int result;

        errno = 0;
        result = function_of_c(held_, detail::callback<T, F>::call, &c);
        if (c.thrown)
            std::rethrow_exception(c.thrown);
        detail::check(result >= 0, "salloc_profile_iterate");
    }

    salloc_profile *held_;
};

/** A recording that runs until it is stopped. Move-only. The destructor stops it without a result.
 */
class recording
{
  public:
    recording(recording &&other) noexcept : token_(std::exchange(other.token_, nullptr))
    {
    }
    recording &operator=(recording &&other) noexcept
    {
        if (this != &other) {
            end();
            token_ = std::exchange(other.token_, nullptr);
        }
        return *this;
    }
    recording(const recording &) = delete;
    recording &operator=(const recording &) = delete;
    ~recording()
    {
        end();
    }

    static recording allocations()
    {
        return recording(salloc_start_allocation_profile(), "salloc_start_allocation_profile");
    }
    static recording lifetimes()
    {
        return recording(salloc_start_lifetime_profile(), "salloc_start_lifetime_profile");
    }
    /** An event trace with so much memory. */
    static recording events(size_t max_bytes = size_t{4} << 20)
    {
        return recording(salloc_start_event_trace(max_bytes), "salloc_start_event_trace");
    }

    /** Stops the recording and returns its profile. If this throws, the recording may go on. */
    profile stop()
    {
        salloc_profile *made = salloc_profile_token_stop(token_);

        detail::check(made != nullptr, "salloc_profile_token_stop");
        token_ = nullptr;
        return profile(made);
    }
    bool running() const noexcept
    {
        return token_ != nullptr;
    }

  private:
    recording(salloc_profile_token *token, const char *what) : token_(token)
    {
        detail::check(token != nullptr, what);
    }
    void end() noexcept
    {
        int saved = errno;

        if (token_)
            salloc_profile_free(salloc_profile_token_stop(token_));
        token_ = nullptr;
        errno = saved;
    }

    salloc_profile_token *token_;
};

/**
 * A hook of samples, from the constructor to the destructor. Neither movable nor copyable. The
 * function must not throw. A thread that was about to call it may still do so once after the
 * destructor, so that the function and `arg` must live longer than that.
 */
class sample_hook
{
  public:
    using function = void (*)(const event *, void *arg);

    explicit sample_hook(function hook, void *arg = nullptr) : hook_(hook), arg_(arg)
    {
        detail::check(salloc_add_sample_hook(hook, arg) == 0, "salloc_add_sample_hook");
    }
    sample_hook(const sample_hook &) = delete;
    sample_hook &operator=(const sample_hook &) = delete;
    ~sample_hook()
    {
        salloc_remove_sample_hook(hook_, arg_);
    }

  private:
    function hook_;
    void *arg_;
};

} // namespace salloc

#endif
