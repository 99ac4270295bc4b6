package sqlwin;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermission;
import java.util.EnumSet;
import java.util.Set;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local file system, which sets the permissions of files by itself.
 *
 * <p>Without Hadoop's native library it starts a process, chmod, for each file and each directory
 * that it creates. All else is Hadoop's.
 */
public class LocalFiles extends LocalFileSystem {
  private static final PosixFilePermission[] BITS = PosixFilePermission.values();

  /** For Hadoop, which makes it by its name in {@code fs.file.impl}. */
  public LocalFiles() {
    super(new Raw());
  }

  /** The same without checksums. */
  public static class Raw extends RawLocalFileSystem {
    @Override
    public void setPermission(Path path, FsPermission permission) throws IOException {
      int mode = permission.toShort();
      if (mode >> BITS.length != 0) {
        // setuid, setgid and the sticky bit, which Java does not know
        super.setPermission(path, permission);
        return;
      }
      Set<PosixFilePermission> chosen = EnumSet.noneOf(PosixFilePermission.class);
      for (int bit = 0; bit < BITS.length; bit++) {
        // from the owner's right to read, the highest one, to that of others to execute
        if ((mode >> (BITS.length - 1 - bit) & 1) == 1) {
          chosen.add(BITS[bit]);
        }
      }
      try {
        Files.setPosixFilePermissions(pathToFile(path).toPath(), chosen);
      } catch (UnsupportedOperationException error) {
        // no file system with such permissions
        super.setPermission(path, permission);
      }
    }
  }
}
